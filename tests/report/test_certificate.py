"""Certificates: written, read again, judged again; hostile ones are refused by name."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from typing import Any

import pytest
import yaml

from fixtures.checks import Evidence, Impact, Level, Outcome, Scope, Spec, Status, Verdict, Word
from fixtures.report.certificate import (
    Certificate,
    CheckRow,
    ClusterRow,
    Cost,
    FeatureRow,
    Suite,
    VersionRow,
    check_row,
    evidence_file,
    identity_of,
    rejudge,
    statistics,
)
from fixtures.report.files import verify, write
from fixtures.report.reading import load
from fixtures.report.summary import summary
from fixtures.report.wire import BadCertificate, from_wire, to_wire, to_yaml

EVIDENCE = Evidence("Log of Pod", "pods/x", "a line\n", "2026-01-01T00:00:00.000Z")


def row(id: str, status: Status = Status.PASSED, reason: str = "", *, level: Level = Level.REQUIRED, evidence=()) -> CheckRow:
    outcome = Outcome(id, status, reason, evidence, level, 1.23456)
    return check_row(Spec(id, level, Impact.READ_ONLY, "the sentence"), f"title of {id}", outcome)


ROWS = (
    row("POL-2", evidence=(EVIDENCE,)),
    row("POL-8", Status.FAILED, "too tight", level=Level.RECOMMENDED),
    row("REN-2"),
    row("INT-1"),
    row("MIG-1", Status.NOT_SELECTED, "--allow"),
)

FULL = Certificate(
    suite=Suite("0.1.0", "abc+dirty"),
    taken_at="2026-01-01T00:00:00Z",
    cluster=ClusterRow("embedded", identity_of("uid")),
    scope=Scope.SIMULATED,
    required_scope=Scope.READ_ONLY,
    engine="reference",
    options={"seed": "7"},
    verdict=Verdict(Word.PARTIAL, Scope.SIMULATED, ("scope simulated is narrower than the required read-only",)),
    not_restored=("left behind: namespace x",),
    versions=(VersionRow("KubeVirt", "1.8.4", "KubeVirt CR"), VersionRow("HCO", "not installed")),
    features=(FeatureRow("kubevirts.kubevirt.io", "present", "served in v1"), FeatureRow("x", "unknown")),
    checks=ROWS,
    scenario={"reached": "balanced", "moves": [{"vm": "vm-1", "source": "a", "target": "b"}]},
    cost=Cost(9.5, 620.0, 431),
)
BARE = Certificate(
    suite=Suite("0"),
    taken_at="t",
    cluster=ClusterRow("live"),
    scope=Scope.READ_ONLY,
    verdict=Verdict(Word.UNKNOWN, Scope.READ_ONLY),
)


REACHED = replace(
    BARE,
    verdict=replace(BARE.verdict, simulated=True),
    versions=(VersionRow("Kubernetes", "v1.35.0+emulated"), VersionRow("kubelet", "v1.35.0")),
)


@pytest.mark.parametrize("certificate", [FULL, BARE, REACHED], ids=["full", "bare", "reached"])
def test_a_certificate_reads_back_equal(certificate):
    assert from_wire(yaml.safe_load(to_yaml(certificate))) == certificate


def test_the_text_is_stable_and_its_keys_keep_their_order():
    assert to_yaml(FULL) == to_yaml(copy.deepcopy(FULL))
    assert list(to_wire(FULL)) == [
        "apiVersion",
        "kind",
        "verdict",
        "scope",
        "requiredScope",
        "simulated",
        "takenAt",
        "suite",
        "cluster",
        "engine",
        "options",
        "versions",
        "features",
        "statistics",
        "checks",
        "scenario",
        "cost",
    ]
    assert to_yaml(FULL).startswith("apiVersion: vm-rebalance-conformance/v1alpha1\nkind: Certificate\n")


def test_a_certificate_of_the_embedded_cluster_says_simulated():
    assert to_wire(FULL)["simulated"] is True
    assert to_wire(BARE)["simulated"] is False


def test_so_does_one_of_an_embedded_cluster_that_was_reached_like_a_real_one():
    wire = to_wire(REACHED)
    assert (wire["simulated"], wire["verdict"]["text"]) == (True, "unknown (read-only, simulated)")
    assert str(rejudge(REACHED)) == "unknown (read-only, simulated)"
    assert "\n\nlive cluster (simulated: no real cluster was certified)" in summary(REACHED)
    for forged, says in (
        (wire | {"simulated": False}, "simulated: False where a Kubernetes version with +emulated means True"),
        (wire | {"verdict": {"text": "unknown (read-only)", "word": "unknown"}}, "where word and scope say"),
        (wire | {"versions": []}, "simulated: True where cluster.source 'live' means False"),
    ):
        with pytest.raises(BadCertificate, match=re.escape(says)):
            from_wire(forged)


def test_the_identity_is_comparable_and_not_the_uid():
    assert identity_of("uid") == identity_of("uid") != identity_of("other")
    assert "uid" not in identity_of("uid").removeprefix("sha256:")
    assert identity_of("") == "unknown"


def test_statistics_count_by_area_and_level():
    assert statistics(ROWS) == {
        "areas": {
            "POL": {"passed": 1, "failed": 1},
            "REN": {"passed": 1},
            "INT": {"passed": 1},
            "MIG": {"not-selected": 1},
        },
        "levels": {"required": {"passed": 3, "not-selected": 1}, "recommended": {"failed": 1}},
    }


def test_the_verdict_follows_from_the_recorded_outcomes():
    assert rejudge(from_wire(to_wire(FULL))) == FULL.verdict


@pytest.mark.parametrize(
    ("kind", "body", "name"),
    [
        ("log", "x", "evidence/POL-2-1-log.txt"),
        ("Object", {"a": 1}, "evidence/POL-2-1-object.json"),
        ("../../etc/passwd", "x", "evidence/POL-2-1-etc-passwd.txt"),
        ("", None, "evidence/POL-2-1-note.json"),
    ],
)
def test_evidence_files_stay_in_their_folder(kind, body, name):
    assert evidence_file("POL-2", 1, Evidence(kind, "r", body)) == name


def test_a_written_certificate_verifies_offline(tmp_path):
    path = write(FULL, {evidence_file("POL-2", 1, EVIDENCE): EVIDENCE}, tmp_path / "out")
    assert path == tmp_path / "out" / "report.yaml"
    assert load(path) == FULL
    assert verify(path) == []
    assert sorted(p.name for p in path.parent.iterdir()) == ["evidence", "report.html", "report.yaml", "summary.md"]


@pytest.mark.parametrize(
    ("tamper", "problem"),
    [
        (
            lambda d: (d / "evidence/POL-2-1-log-of-pod.txt").write_text("other"),
            "POL-2: evidence/POL-2-1-log-of-pod.txt: not the recorded",
        ),
        (lambda d: (d / "evidence/POL-2-1-log-of-pod.txt").unlink(), "POL-2: evidence/POL-2-1-log-of-pod.txt: missing"),
        (
            lambda d: (d / "report.yaml").write_text((d / "report.yaml").read_text().replace(": partial", ": conformant")),
            "verdict: says conformant (simulated), the outcomes give partial (simulated)",
        ),
        (
            lambda d: (d / "report.yaml").write_text((d / "report.yaml").read_text().replace("evidence/POL", "../../POL")),
            "outside the certificate's directory",
        ),
    ],
)
def test_a_tampered_certificate_is_found_out(tmp_path, tamper, problem):
    path = write(FULL, {evidence_file("POL-2", 1, EVIDENCE): EVIDENCE}, tmp_path)
    tamper(tmp_path)
    assert any(problem in p for p in verify(path))


def changed(path: str, value: Any) -> dict[str, Any]:
    """The full certificate's wire form with one place changed (``...`` removes it)."""
    wire: Any = yaml.safe_load(to_yaml(FULL))
    *steps, last = [int(s) if s.isdigit() else s for s in path.split(".")]
    target = wire
    for step in steps:
        target = target[step]
    if value is ...:
        del target[last]
    else:
        target[last] = value
    return wire


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("kind", "Pod", "kind 'Pod' of 'vm-rebalance-conformance/v1alpha1' where Certificate of"),
        ("apiVersion", "v2", "where Certificate of vm-rebalance-conformance/v1alpha1 is wanted"),
        ("scope", "galaxy", "scope: 'galaxy' where one of simulated, files,"),
        ("verdict", [], "verdict: a list where a mapping is wanted"),
        ("verdict.word", "fine", "verdict.word: 'fine' where one of conformant,"),
        ("checks", {}, "checks: a dict where a list is wanted"),
        ("checks.1.outcome", "great", "checks[1].outcome: 'great' where one of passed,"),
        ("checks.1.outcome", ..., "checks[1].outcome: missing"),
        ("checks.0.evidence.0.sha256", 5, "checks[0].evidence[0].sha256: 5 where a text is wanted"),
        ("checks.2", "x" * 500, "checks[2]: 'xxx"),
        ("cost.seconds", "nan", "cost.seconds: 'nan' where a number of at least 0 is wanted"),
        ("cost.seconds", float("nan"), "cost.seconds: nan where a number"),
        ("cost.requests", True, "cost.requests: True where a whole number is wanted"),
        ("scenario", "s", "scenario: 's' where a mapping is wanted"),
        ("simulated", False, "simulated: False where cluster.source 'embedded' means True"),
        ("simulated", ..., "simulated: None where"),
        ("cluster.source", "live", "simulated: True where cluster.source 'live' means False"),
        ("scope", "live-migration", "scope: 'live-migration' where cluster.source 'embedded' means 'simulated'"),
        (
            "verdict.text",
            "conformant (live-migration)",
            "verdict.text: 'conformant (live-migration)' where word and scope say 'partial",
        ),
    ],
)
def test_a_bad_certificate_is_refused_by_path_and_value(path, value, message):
    with pytest.raises(BadCertificate) as caught:
        from_wire(changed(path, value))
    assert message in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "document: None where a mapping is wanted"),
        (b"[1, 2", "not YAML"),
        (b"\xff\xfe", "not YAML"),
        (b"- a", "document: a list where a mapping is wanted"),
        (b"a: " + b"[" * 5000, "not YAML"),
        (b"x" * (8 * 1024 * 1024 + 1), "larger than 8 MiB"),
        (to_yaml(FULL).partition("\nchecks:")[0].encode(), "cost: missing"),
    ],
    ids=["empty", "broken", "binary", "list", "deep", "huge", "truncated"],
)
def test_a_hostile_file_is_one_message_that_names_it(tmp_path, raw, message):
    path = tmp_path / "report.yaml"
    path.write_bytes(raw)
    with pytest.raises(BadCertificate) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_a_message(tmp_path):
    with pytest.raises(BadCertificate, match="No such file"):
        load(tmp_path / "none")


def test_keys_from_a_newer_suite_are_ignored():
    assert from_wire(to_wire(FULL) | {"somethingNew": 1}) == FULL


def test_the_summary_shows_verdict_areas_failures_and_the_move():
    text = summary(FULL)
    assert text.startswith(
        "# VM rebalance conformance: partial (simulated)\n\nembedded cluster (simulated: no real cluster was certified)"
    )
    assert "| area | passed | failed |\n" in text
    assert "| POL | 1 | 1 |\n" in text
    assert "| POL-8 | failed | recommended | too tight |" in text
    assert "MIG-1" not in text
    assert "| vm-1 |" in text


def test_what_several_checks_have_in_common_is_said_once_and_applies_nowhere_comes_last():
    rows = [row(f"MIG-{n}", Status.INCONCLUSIVE, "it stopped") for n in (4, 5)]
    rows = [row("CRD-1", Status.NOT_APPLICABLE, "no group"), *rows, row("MIG-3", Status.FAILED, "no request")]
    text = summary(replace(FULL, checks=tuple(rows)))
    lines = [line for line in text.splitlines() if "| required |" in line]
    assert lines == [
        "| MIG-3 | failed | required | no request |",
        "| MIG-4, MIG-5 | inconclusive | required | it stopped |",
        "| CRD-1 | not-applicable | required | no group |",
    ]


def test_no_text_from_a_cluster_is_a_link_a_mention_or_an_escape_in_the_summary():
    text = summary(replace(FULL, engine="https://x.example www.x.example @all ~~a~~ $x$ #1 \x1b[31m"))
    assert "https&#58;//x.example www&#46;x.example &#64;all \\~\\~a\\~\\~ \\$x\\$ \\#1 \ufffd\\[31m" in text


def test_nothing_from_a_cluster_breaks_the_summarys_tables():
    text = summary(
        Certificate(
            suite=Suite("0"),
            taken_at="t",
            cluster=ClusterRow("live"),
            scope=Scope.READ_ONLY,
            verdict=Verdict(Word.UNKNOWN, Scope.READ_ONLY),
            checks=(row("POL-2", Status.FAILED, "a|b\n| x | <script>alert(1)</script> [link](http://x)"),),
        )
    )
    line = next(line for line in text.splitlines() if line.startswith("| POL-2"))
    assert line.replace("\\|", "").count("|") == 5
    assert "<script>" not in text
    assert "[link](" not in text
