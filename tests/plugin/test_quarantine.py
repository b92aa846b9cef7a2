"""Known failures in the config file: told everywhere, never passed, never plainly conformant, and only until their end."""

from __future__ import annotations

import json

import pytest
import yaml

from fixtures.report.files import verify
from fixtures.report.wire import BadCertificate

FAILING = """
@check("POL-7", impact=RO, source="s"{level})
def test_x():
    "It holds."
    assert False, "args lack the gate"
"""
REASON = "known failure (OPS-7, until 2099-12-31): args lack the gate"


def known(project, check="POL-7", until="2099-12-31"):
    (project.path / "c.yaml").write_text(f"quarantine:\n- {{check: {check}, ticket: OPS-7, until: {until}}}\n")
    return project.run("--config=c.yaml")


def test_a_required_known_failure_is_partial_and_told_everywhere(project):
    result = known(project.checks(FAILING.format(level="")))
    assert result.ret == 6
    report = project.report
    assert report["verdict"] == {"text": "partial (simulated)", "word": "partial", "reasons": [f"POL-7 quarantined: {REASON}"]}
    row = project.row("POL-7")
    assert (row["outcome"], row["reason"]) == ("quarantined", REASON)
    assert row["quarantine"] == {"ticket": "OPS-7", "until": "2099-12-31"}
    assert report["statistics"]["areas"]["POL"] == {"passed": 1, "quarantined": 1}
    out = " ".join(result.stdout.str().split())
    assert "- quarantined: POL-7 (OPS-7, until 2099-12-31)" in out
    assert f"POL-7 quarantined required {REASON.partition(':')[0]}" in out
    results = project.path / "results"
    assert REASON in (results / "summary.md").read_text()
    assert REASON in (results / "report.html").read_text()
    assert f'<skipped type="pytest.skip" message="POL-7 quarantined: {REASON}">' in (results / "junit.xml").read_text()
    allure = [json.loads(f.read_text()) for f in (results / "allure-results").glob("*-result.json")]
    mine = next(a for a in allure if a["name"].startswith("POL-7"))
    assert mine["status"] == "skipped"
    assert {"name": "outcome", "value": "quarantined"} in mine["labels"]
    assert verify(results / "report.yaml") == []


def test_a_recommended_known_failure_is_told_and_decides_nothing(project):
    result = known(project.checks(FAILING.format(level=", level=Level.RECOMMENDED")))
    assert result.ret == 0
    assert project.row("POL-7")["outcome"] == "quarantined"


def test_a_known_failure_of_a_cornerstone_is_partial_too(project):
    text = FAILING.format(level="").replace("POL-7", "REN-2")
    others = '@check("{0}", impact=RO, source="s")\ndef test_{1}():\n    "X."\n'
    project.checks(text + others.format("POL-2", "a") + others.format("INT-1", "b"), cornerstones=False)
    assert known(project, "REN-2").ret == 6


def test_an_ended_quarantine_counts_as_a_failure_and_is_told(project):
    result = known(project.checks(FAILING.format(level="")), until="2020-02-29")
    assert result.ret == 1
    row = project.row("POL-7")
    assert (row["outcome"], row["reason"]) == ("failed", "args lack the gate (its quarantine has ended: OPS-7, until 2020-02-29)")
    assert "quarantine has ended, so a failure counts: POL-7 (OPS-7, until 2020-02-29)" in " ".join(result.stdout.str().split())


@pytest.mark.parametrize(("until", "ended"), [("2099-12-31", ""), ("2020-02-29", ", which has ended")])
def test_a_check_that_passes_although_it_is_quarantined_is_told(project, until, ended):
    result = known(project.checks(), "POL-2", until)
    assert result.ret == 0
    said = f"POL-2 passes although it is quarantined (OPS-7, until {until}){ended}: take it out of the config file"
    assert said in " ".join(result.stdout.str().split())
    assert said in (project.path / "results" / "report.html").read_text()
    assert said in (project.path / "results" / "summary.md").read_text()


@pytest.mark.parametrize(
    ("body", "outcome"),
    [("skipped('nobody may look')", "skipped"), ("{}['x']", "inconclusive"), ("not_applicable('x')", "not-applicable")],
)
def test_only_failures_are_known_failures(project, body, outcome):
    text = f'@check("POL-7", impact=RO, source="s")\ndef test_x():\n    "It holds."\n    {body}\n'
    known(project.checks(text))
    assert project.row("POL-7")["outcome"] == outcome
    assert project.row("POL-7")["quarantine"]["ticket"] == "OPS-7"


def test_a_run_of_a_part_of_the_checks_does_not_miss_the_others(project):
    project.checks(name="test_some.py")
    project.checks(FAILING.format(level=""), cornerstones=False, name="test_other.py")
    (project.path / "c.yaml").write_text("quarantine:\n- {check: POL-7, ticket: OPS-7, until: 2099-12-31}\n")
    assert project.run("--config=c.yaml", "conformance/test_some.py").ret == 0


def test_a_certificate_cannot_stretch_a_quarantine(project):
    known(project.checks(FAILING.format(level="")))
    path = project.path / "results" / "report.yaml"
    content = yaml.safe_load(path.read_text())
    next(c for c in content["checks"] if c["id"] == "POL-7")["quarantine"]["until"] = "2020-01-01"
    path.write_text(yaml.safe_dump(content))
    problems = verify(path)
    assert problems[0] == "verdict: says partial (simulated), the outcomes give non-conformant (simulated)"
    assert problems[1].startswith("POL-7: quarantined at 20")
    del next(c for c in content["checks"] if c["id"] == "POL-7")["quarantine"]
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(BadCertificate, match="outcome quarantined without quarantine"):
        verify(path)
