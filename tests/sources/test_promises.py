"""Every sentence of the procedure is known by its hash, and those that promise something name the checks that certify it."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
import yaml

from fixtures.report import catalogue
from tests.sources.sentences import DATA, digest, sentences

TEXT = (DATA / "procedure.txt").read_text(encoding="utf-8")
TABLE: Mapping[str, list[str]] = {
    entry["hash"]: entry["checks"] for entry in yaml.safe_load((DATA / "promises.yaml").read_text(encoding="utf-8"))
}
#: From the catalogue alone: other APIs, and what upstream promises.
BEYOND = {"BGE-10", "BGE-11", "BGE-12", "EVR-2", "INT-4", "INT-5", "MIG-10"}
#: Words by which a sentence commits somebody to something.
_COMMITS = re.compile(r"\b(must|only|never|every|is|are|adds|sets|removes|accepts|limits|restores|counts|records)\b", re.IGNORECASE)


def test_no_sentence_is_new_changed_or_gone() -> None:
    found = {digest(s): s for s in sentences(TEXT)}
    unknown = [s for d, s in found.items() if d not in TABLE]
    assert not unknown, "new or changed sentences; say in promises.yaml which checks certify them"
    assert set(TABLE) - set(found) == set(), "promises.yaml has sentences that the procedure no longer has"


def test_the_checks_named_exist() -> None:
    declared = {entry.spec.id for entry in catalogue.load()}
    named = {check for checks in TABLE.values() for check in checks}
    assert named - declared == set()


def test_every_check_certifies_some_sentence() -> None:
    named = {check for checks in TABLE.values() for check in checks}
    assert {entry.spec.id for entry in catalogue.load()} - named - BEYOND == set()


@pytest.mark.parametrize("sentence", [s for s in sentences(TEXT) if len(s.split()) > 9 and s.endswith((".", ";"))])
def test_a_long_sentence_that_commits_somebody_has_checks(sentence: str) -> None:
    assert TABLE[digest(sentence)] or not _COMMITS.search(sentence)
