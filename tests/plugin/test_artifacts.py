"""What a run leaves behind: evidence, JUnit and Allure results, a held cluster; and no secret in any of it."""

from __future__ import annotations

import hashlib
import json
import xml.etree.ElementTree as ET

import pytest

from fixtures.report.certificate import rejudge
from fixtures.report.files import verify
from fixtures.report.reading import load

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl"
EVIDENCE = f"""
@check("POL-7", level=Level.RECOMMENDED, impact=RO, source="The sentence")
def test_x(evidence):
    "It holds."
    evidence("object", "configmaps/x", {{"kind": "Secret", "data": {{"a": "aGVsbG8="}}}})
    evidence("log", "pods/x", "line with {TOKEN}\\n")
    assert False, "token {TOKEN} was found"

@check("POL-8", level=Level.RECOMMENDED, impact=RO, source="s")
def test_y():
    "Why."
    password = "bearer {TOKEN}"
    not_applicable("url https://me:hunter22@host says {TOKEN}")

@pytest.fixture
def broken():
    raise Denied("{TOKEN}")

@check("POL-6", level=Level.RECOMMENDED, impact=RO, source="s")
def test_w(broken):
    "Never."

@check("POL-9", level=Level.RECOMMENDED, impact=RO, source="s")
def test_z():
    "Boom."
    raise RuntimeError("{TOKEN}")
"""


def test_evidence_is_written_redacted_and_its_digest_verifies(project):
    project.checks(EVIDENCE).run()
    rows = project.row("POL-7")["evidence"]
    assert [(r["kind"], r["file"]) for r in rows] == [
        ("object", "evidence/POL-7-1-object.json"),
        ("log", "evidence/POL-7-2-log.txt"),
    ]
    for row in rows:
        raw = (project.path / "results" / row["file"]).read_bytes()
        assert hashlib.sha256(raw).hexdigest() == row["sha256"]
        assert row["takenAt"] == "2027-01-15T08:00:00.000Z"
    report = project.path / "results/report.yaml"
    assert verify(report) == []
    certificate = load(report)
    assert rejudge(certificate).word is certificate.verdict.word


def test_a_second_run_replaces_the_evidence_of_the_first(project):
    project.checks(EVIDENCE).run()
    (project.path / "results/evidence/notes.txt").write_text("mine")
    project.checks().run()
    assert [p.name for p in (project.path / "results/evidence").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("flags", [[], ["-v"], ["--tb=long", "--showlocals"]])
def test_no_secret_reaches_any_file(project, flags):
    project.checks(EVIDENCE).run(*flags)
    files = [p for p in (project.path / "results").rglob("*") if p.is_file()]
    assert len(files) > 8
    for file in files:
        text = file.read_text()
        for secret in (TOKEN, "aGVsbG8", "hunter22"):
            assert secret not in text, file


def test_junit_tells_level_and_outcome_of_each_check(project):
    project.checks(EVIDENCE).run()
    suite = ET.parse(project.path / "results/junit.xml").getroot().find("testsuite")  # noqa: S314 (our own file)
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("7", "2", "2")
    case = next(c for c in suite.iter("testcase") if c.get("name") == "test_x")
    properties = {p.get("name"): p.get("value") for p in case.iter("property")}
    assert properties | {"reason": ""} == {
        "check": "POL-7",
        "level": "recommended",
        "impact": "read-only",
        "outcome": "failed",
        "reason": "",
    }
    failure = case.find("failure")
    assert failure is not None
    assert failure.text == "POL-7 failed: token [redacted] was found"


def test_allure_results_are_named_and_labelled_after_the_checks(project):
    project.checks(EVIDENCE).run()
    folder = project.path / "results/allure-results"
    results = {r["name"]: r for r in (json.loads(p.read_text()) for p in folder.glob("*-result.json"))}
    assert set(results) == {
        "INT-1 The interceptor is registered.",
        "POL-2 The policy parses.",
        "POL-6 Never.",
        "POL-7 It holds.",
        "POL-8 Why.",
        "POL-9 Boom.",
        "REN-2 The gate is on.",
    }
    labels = {label["name"]: label["value"] for label in results["POL-8 Why."]["labels"]}
    assert {k: labels.get(k) for k in ("check", "area", "level", "impact", "outcome")} == {
        "check": "POL-8",
        "area": "POL",
        "level": "recommended",
        "impact": "read-only",
        "outcome": "not-applicable",
    }
    assert results["POL-8 Why."]["status"] == "skipped"
    assert results["POL-7 It holds."]["status"] == "failed"
    environment = (folder / "environment.properties").read_text().splitlines()
    assert "KubeVirt=1.8.4" in environment
    assert "verdict=partial (simulated)" in environment


def test_the_users_own_report_options_stand(project):
    project.checks().run("--junitxml=mine.xml", "--alluredir=mine")
    assert (project.path / "mine.xml").exists()
    assert len(list((project.path / "mine").glob("*-result.json"))) == 3
    assert not (project.path / "results/junit.xml").exists()
    assert not (project.path / "results/allure-results").exists()


def test_allure_may_be_absent(project):
    assert project.checks().run("-p", "no:allure_pytest.plugin").ret == 0
    assert not (project.path / "results/allure-results").exists()


def test_the_summary_is_written(project):
    project.checks(EVIDENCE).run()
    text = (project.path / "results/summary.md").read_text()
    assert text.startswith("# VM rebalance conformance: partial (simulated)\n")
    assert "| POL-7 | failed | recommended | token \\[redacted\\] was found |" in text


def test_hold_keeps_the_cluster_until_ctrl_c_after_the_verdict(project):
    result = project.checks().run("--hold")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "conformant (simulated)*",
            "*KUBECONFIG=/nowhere/kubeconfig*",
            "*kubectl -n descheduler get cronjob*",
            "*kubectl get vmi*",
            "HOLDING",
        ]
    )
    assert (project.path / "closed").exists()
