"""The published schema describes what is written, and refuses what contradicts itself."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema
import pytest
import yaml

from fixtures.checks import Status
from fixtures.report.files import write
from fixtures.report.schema import schema
from fixtures.report.wire import to_wire, to_yaml
from tests.report.samples import certificate, evidence_of, row


@pytest.fixture(scope="module")
def validator():
    jsonschema.Draft202012Validator.check_schema(schema())
    return jsonschema.Draft202012Validator(schema())


@pytest.mark.parametrize("source", ["embedded", "live", "files"])
@pytest.mark.parametrize("with_scenario", [True, False])
def test_what_is_written_is_valid(validator, source, with_scenario, tmp_path):
    found = certificate(row("POL-8", Status.FAILED), row("MIG-9", Status.NOT_SELECTED), source=source, with_scenario=with_scenario)
    path = write(found, evidence_of(found), tmp_path)
    validator.validate(yaml.safe_load(path.read_text(encoding="utf-8")))


def changed(path: str, value: Any) -> dict[str, Any]:
    wire: Any = copy.deepcopy(to_wire(certificate(row("POL-8", Status.FAILED))))
    *steps, last = [int(s) if s.isdigit() else s for s in path.split(".")]
    target = wire
    for step in steps:
        target = target[step]
    target[last] = value
    return wire


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("simulated", False),
        ("scope", "live-migration"),
        ("cluster.source", "live"),
        ("cluster.source", "moon"),
        ("verdict.word", "fine"),
        ("takenAt", "yesterday"),
        ("checks.0.outcome", "great"),
        ("checks.0.evidence.0.sha256", "abc"),
        ("checks.4.reason", None),
        ("cost.seconds", -1),
        ("scenario.moves.0.requestedAt", 5),
    ],
)
def test_what_is_wrong_or_contradicts_itself_is_not_valid(validator, path, value):
    assert not validator.is_valid(changed(path, value))


def test_keys_of_a_later_version_are_valid(validator):
    assert validator.is_valid(changed("somethingNew", 1))


def test_texts_of_several_lines_stay_readable():
    assert "  policy: |\n    kind: DeschedulerPolicy\n" in to_yaml(certificate())
