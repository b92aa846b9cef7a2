"""Allure and JUnit results, finished: what a reader of either finds beside the certificate."""

from __future__ import annotations

import json
import os
import re
import subprocess
import xml.etree.ElementTree as ET

import pytest

from fixtures.checks import Level, Status
from fixtures.report import allure, junit
from fixtures.report.files import write
from tests.report.samples import HOSTILE, LOG, certificate, evidence_of, move, row, scenario
from tests.report.tools import program


def result(check: str, status: str = "passed", **more) -> dict:
    labels = [("check", check), ("outcome", "failed"), ("outcome", status), ("host", "laptop"), ("thread", "1-Main"), ("tag", "@x")]
    told = {"name": "test_x", "status": status, "start": 5, "stop": 6, "uuid": check, "historyId": check, "fullName": "a#b"}
    return (
        told | {"labels": [{"name": n, "value": v} for n, v in labels], "parameters": [{"name": "c", "value": "<object>"}]} | more
    )


@pytest.fixture
def finished(tmp_path):
    told = scenario() | {"moves": [move(1), move(2, phase="Failed")]}
    found = certificate(
        row("POL-8", Status.FAILED, "token: abcdefgh123456", level=Level.RECOMMENDED), row("MIG-3", evidence=(LOG,)), scenario=told
    )
    write(found, evidence_of(found), tmp_path)
    folder = tmp_path / "allure-results"
    folder.mkdir()
    for check, status in (("POL-2", "passed"), ("POL-8", "failed"), ("MIG-3", "passed")):
        message = {"message": f"{check} failed: token: abcdefgh123456"}
        (folder / f"{check}-result.json").write_text(json.dumps(result(check, status, statusDetails=message)))
    (folder / "other-result.json").write_text(json.dumps({"name": "not ours", "labels": []}))
    allure.finish(folder, found, tmp_path)
    return folder


def read(folder, check):
    return json.loads((folder / f"{check}-result.json").read_text())


def test_labels_name_check_area_severity_and_the_last_outcome_and_no_machine(finished):
    labels = {label["name"]: label["value"] for label in read(finished, "POL-8")["labels"]}
    assert labels == {
        "check": "POL-8",
        "outcome": "failed",
        "severity": "normal",
        "epic": "VM rebalance conformance (simulated)",
        "feature": "POL policy ConfigMap",
    }


def test_evidence_is_attached_and_what_is_not_ours_stays(finished):
    (attached,) = read(finished, "POL-2")["attachments"]
    assert (attached["name"], attached["type"]) == ("log: pods/x", "text/plain")
    assert (finished / attached["source"]).read_text() == LOG.text
    assert json.loads((finished / "other-result.json").read_text()) == {"name": "not ours", "labels": []}


def test_the_scenario_is_told_in_steps(finished):
    assert read(finished, "POL-2")["steps"] == []
    steps = read(finished, "MIG-3")["steps"]
    assert [s["name"] for s in steps] == [
        "2 moves planned: worker-a → worker-b",
        "cycle 1: 1 requested, 0 evicted",
        "cycle 2: 1 requested, 0 evicted",
        "cycle 3: 0 requested, 0 evicted",
        "roll-back: everything is as before",
    ]
    moves = [s for c in steps for s in c["steps"] if "→" in s["name"]]
    assert [m["status"] for m in moves] == ["passed", "failed"]
    timeline = (finished / moves[0]["attachments"][0]["source"]).read_text()
    assert re.findall(r"\+\s*([\d.]+) s  (\w+)", timeline) == [("0.0", "Pending"), ("2.0", "Running"), ("11.0", "Succeeded")]


def test_the_overview_names_the_verdict_unless_the_ci_server_told_more(finished):
    told = json.loads((finished / "executor.json").read_text())
    assert told["name"] == "vm-rebalance-conformance 0.1.0"
    assert told["buildName"].endswith("(simulated)")
    (finished / "executor.json").write_text('{"name": "ci"}')
    allure.finish(finished, certificate(), finished)
    assert json.loads((finished / "executor.json").read_text()) == {"name": "ci"}


def test_no_secret_is_left(finished):
    assert not [f for f in finished.iterdir() if "abcdefgh123456" in f.read_text()]


def test_the_environment_is_one_line_a_value():
    text = allure.environment(certificate(kubevirt="1\n2 \\x", engine=HOSTILE))
    lines = text.splitlines()
    assert all(re.fullmatch(r"[^=\s]+=.*", line) for line in lines)
    assert {"simulated=true", "scope=simulated", "KubeVirt=1 2 \\\\x", "descheduler_image=v0.36.0"} <= set(lines)


@pytest.mark.parametrize(
    ("message", "status", "category"),
    [
        ("POL-8 failed: x\ny", "failed", "Failed checks"),
        ("Skipped: CRD-1 not-applicable: no API group", "skipped", "Not applicable here"),
        ("MIG-10 inconclusive: x", "skipped", "Inconclusive: evidence is missing"),
        ("MIG-10 skipped: x", "skipped", "Skipped: something prevented it"),
        ("POL-9 inconclusive: error in the suite: x", "failed", "Errors in the suite"),
    ],
)
def test_each_outcome_has_a_category(message, status, category):
    found = [c["name"] for c in allure.categories() if status in c["matchedStatuses"] and re.fullmatch(c["messageRegex"], message)]
    assert found[0] == category


def made(tool, results, out, *options):
    quiet = os.environ | {"ALLURE_NO_ANALYTICS": "true"}
    command = [tool, "allure2", *options, str(results), "-o", str(out)]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False, env=quiet)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.slow
def test_the_allure_tool_makes_a_report_of_it_that_loads_nothing(finished, tmp_path):
    tool = program("Allure tool", ["allure"], "NO_ALLURE")
    out = made(tool, finished, tmp_path / "out")
    environment = {e["name"]: e["values"] for e in json.loads((out / "widgets/environment.json").read_text())}
    assert (environment["verdict"], environment["simulated"]) == (["conformant (simulated)"], ["true"])
    assert [c["name"] for c in json.loads((out / "data/categories.json").read_text())["children"]] == ["Failed checks"]
    epics = [c["name"] for c in json.loads((out / "data/behaviors.json").read_text())["children"]]
    assert "VM rebalance conformance (simulated)" in epics
    (ours,) = [c for p in (out / "data/test-cases").iterdir() if (c := json.loads(p.read_text()))["name"].startswith("MIG-3 ")]
    assert [s["name"] for s in ours["testStage"]["steps"]][1] == "cycle 1: 1 requested, 0 evicted"
    assert [a["name"] for a in ours["testStage"]["attachments"]] == ["log: pods/x"]
    page = (made(tool, finished, tmp_path / "one", "--single-file") / "index.html").read_text()
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", page)
    assert "googletagmanager" not in page


def test_junit_has_properties_of_the_suite_and_no_host(tmp_path):
    path = tmp_path / "junit.xml"
    path.write_text('<testsuites><testsuite name="pytest" hostname="laptop"><testcase name="x"/></testsuite></testsuites>')
    junit.finish(path, certificate(engine="a\x00b<c>"))
    suite = ET.parse(path).getroot().find("testsuite")  # noqa: S314 (our own file)
    assert suite is not None
    assert (suite.get("hostname"), suite.get("name")) == (None, "vm-rebalance-conformance (simulated)")
    told = {p.get("name"): p.get("value") for p in suite.iter("property")}
    assert told["verdict"] == "conformant (simulated)"
    assert (told["simulated"], told["version.KubeVirt"], told["engine"]) == ("true", "v1.8.4", "a?b<c>")
    assert [c.tag for c in suite] == ["properties", "testcase"]
