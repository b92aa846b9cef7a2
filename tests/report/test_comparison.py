"""``compare``: worse first, and a status that a pipeline can use."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date

import pytest

from fixtures.checks import Level, Status
from fixtures.launcher.__main__ import main
from fixtures.quarantine import Quarantine
from fixtures.report.comparison import Direction, differences, markdown
from fixtures.report.files import write
from tests.report.samples import HOSTILE, certificate, row


def told(a, b):
    return [(d.what, d.before, d.after, d.direction) for d in differences(a, b)]


def test_equal_certificates_do_not_differ():
    assert differences(certificate(), certificate()) == []
    assert markdown([], ("a", "b")) == "The two certificates do not differ.\n"


def test_a_required_check_that_fails_now_is_worse_and_comes_first():
    found = told(certificate(row("POL-3")), certificate(row("POL-3", Status.FAILED), kubevirt="1.9.0"))
    assert found == [
        ("verdict", "conformant (simulated)", "non-conformant (simulated)", Direction.WORSE),
        ("POL-3", "passed", "failed", Direction.WORSE),
        ("version of KubeVirt", "v1.8.4", "1.9.0", Direction.OTHER),
    ]


def test_that_a_failure_is_known_makes_nothing_better():
    known = row("POL-3", Status.QUARANTINED)
    known = replace(known, quarantine=Quarantine("POL-3", "OPS-7", date(2099, 12, 31)))
    failed, mended = certificate(row("POL-3", Status.FAILED)), certificate(row("POL-3"))
    assert {d for *_, d in told(failed, certificate(known))} == {Direction.OTHER}
    assert {d for *_, d in told(certificate(known), failed)} == {Direction.OTHER}
    assert {d for *_, d in told(certificate(known), mended)} == {Direction.BETTER}
    assert {d for *_, d in told(mended, certificate(known))} == {Direction.WORSE}


def test_the_way_back_is_better_and_a_recommended_check_is_neither():
    low = (row("POL-3", Status.INCONCLUSIVE), row("POL-8", level=Level.RECOMMENDED))
    high = (row("POL-3"), row("POL-8", Status.FAILED, level=Level.RECOMMENDED))
    found = {w: d for w, _, _, d in told(certificate(*low), certificate(*high))}
    assert found == {"verdict": Direction.BETTER, "POL-3": Direction.BETTER, "POL-8": Direction.OTHER}


def test_checks_of_one_suite_only_and_doubled_times_are_told():
    found = told(certificate(row("POL-3", seconds=1)), certificate(row("POL-3", seconds=9), row("SEC-1"), seconds=10))
    assert found == [
        ("SEC-1", "not in that suite", "passed", Direction.OTHER),
        ("time of POL-3", "1.0 s", "9.0 s", Direction.OTHER),
    ]


@pytest.fixture
def pair(tmp_path):
    write(certificate(row("POL-3")), {}, tmp_path / "a")
    write(certificate(row("POL-3", Status.FAILED, HOSTILE)), {}, tmp_path / "b")
    return str(tmp_path / "a/report.yaml"), str(tmp_path / "b/report.yaml")


def test_the_status_tells_a_pipeline_whether_something_became_worse(pair, capsys):
    assert main(["compare", *pair]) == 1
    assert "<script>" not in capsys.readouterr().out
    assert main(["compare", *reversed(pair)]) == 0
    capsys.readouterr()
    assert main(["compare", "--json", *pair]) == 1
    assert json.loads(capsys.readouterr().out)[1]["what"] == "POL-3"


def test_every_file_that_is_no_certificate_is_named(tmp_path, capsys):
    (tmp_path / "a").write_text("x: 1")
    with pytest.raises(SystemExit) as ended:
        main(["compare", str(tmp_path / "a"), str(tmp_path / "b")])
    assert ended.value.code == 4
    assert [line.split(": ")[0] for line in capsys.readouterr().err.splitlines()] == [f"{tmp_path}/a", f"{tmp_path}/b"]
