"""``report.html``: complete, self-contained, honest about simulation and about changed evidence, deaf to hostile texts."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from fixtures.checks import Status
from fixtures.report.certificate import rejudge
from fixtures.report.files import write
from fixtures.report.page import MAX_SHOWN, command, page, untested
from fixtures.report.reading import load
from tests.report.samples import HOSTILE, certificate, evidence_of, hostile, row


class Seen(HTMLParser):
    """Tags, and whether they are closed in order."""

    VOID = frozenset(("meta", "br", "img", "input", "link", "hr"))

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}>"


@pytest.fixture
def written(tmp_path):
    found = certificate(
        row("POL-8", Status.FAILED, "too tight"),
        row("CRD-1", Status.NOT_APPLICABLE, "no API group"),
        row("CRD-2", Status.NOT_APPLICABLE, "no API group"),
        row("MIG-10", Status.NOT_SELECTED, "--allow=read-only"),
    )
    write(found, evidence_of(found), tmp_path)
    return tmp_path


def test_the_page_is_well_formed_and_loads_nothing(written):
    text = (written / "report.html").read_text()
    seen = Seen(text)
    assert seen.open == []
    assert not {"script", "link", "img", "iframe", "object", "form"} & set(seen.tags)
    assert not [a for a in seen.attributes if a[0] in ("src", "href") and not (a[1] or "").startswith("#")]
    assert "default-src 'none'" in text
    assert not re.search(r"url\(|@import|https?://", text)


def test_verdict_cluster_and_versions_come_first(written):
    text = (written / "report.html").read_text()
    places = [text.index(w) for w in ("<h1>non-conformant (simulated)", "embedded (simulated)", "v1.8.4", "<svg", 'id="POL-8"')]
    assert places == sorted(places)


def test_everything_a_reader_asks_for_is_there(written):
    text = (written / "report.html").read_text()
    for wanted in (
        "too tight",
        "a line\nanother",
        "the sentence of POL-8",
        '<a class="id" href="#CRD-1">CRD-1</a>, <a class="id" href="#CRD-2">CRD-2</a>',
        "--allow=read-only",
        "431",
        "rebalance-conformance run --embedded=kubevirt=v1.8.4",
        "rebalance-conformance verify report.yaml",
        "kubevirt-evacuation-1 Succeeded",
        "underutilised below 75&nbsp;%, overutilised above 80&nbsp;%",
    ):
        assert wanted in text, wanted


def test_a_simulated_certificate_says_so_in_title_banner_and_verdict(written):
    text = (written / "report.html").read_text()
    assert "<title>SIMULATED: " in text
    assert "No real cluster was certified" in text
    assert "(simulated)</h1>" in text
    assert '<p class="watermark" aria-hidden="true">simulated</p>' in text


def test_what_was_planted_is_told_and_reasons_lead_to_their_checks(tmp_path):
    found = certificate(row("POL-8", Status.FAILED, "too tight"))
    found = replace(found, options={"defect": "gate-not-rendered"}, verdict=rejudge(found))
    text = page(found, tmp_path)
    assert "<dt>planted</dt><dd><strong>defect gate-not-rendered</strong>, on purpose</dd>" in text
    assert '<li><a href="#POL-8">POL-8</a> failed: too tight</li>' in text


def test_a_real_one_does_not(tmp_path):
    text = page(certificate(source="live"), tmp_path)
    assert "imulated" not in re.sub(r"<style>.*</style>", "", text, flags=re.S)


def test_evidence_that_was_changed_is_missing_or_elsewhere_is_told(written):
    (written / "evidence/POL-2-1-log.txt").write_text("forged")
    assert "the file was changed after the run" in page(load(written / "report.yaml"), written)
    (written / "evidence/POL-2-1-log.txt").unlink()
    assert "not shown: No such file or directory" in page(load(written / "report.yaml"), written)
    report = written / "report.yaml"
    report.write_text(report.read_text().replace("evidence/POL-2-1-log.txt", "../../../etc/passwd"))
    text = page(load(report), written)
    assert "not shown: outside the certificate" in text
    assert "root:" not in text


def test_long_evidence_is_cut_and_said(written):
    (written / "evidence/POL-2-1-log.txt").write_text("x" * (MAX_SHOWN + 5))
    text = page(load(written / "report.yaml"), written)
    assert "only the first 48 KiB are shown here" in text
    assert len(text) < 200_000


def test_hostile_texts_stay_texts(tmp_path):
    write(hostile(), evidence_of(hostile()), tmp_path)
    text = (tmp_path / "report.html").read_text()
    seen = Seen(text)
    assert not {"script", "img"} & set(seen.tags)
    assert not [a for a in seen.attributes if a[0].startswith("on")]
    assert "{{ 7*7 }}" in text
    assert "49" not in re.sub(r"<style>.*</style>", "", text, flags=re.S).split("<svg")[0]
    assert HOSTILE not in text


@pytest.mark.parametrize(
    "scenario", [None, {}, {"moves": 5, "cycles": [1, {}], "thresholds": []}, {"rollback": "x", "moves": [{}]}]
)
def test_an_odd_scenario_is_drawn_as_far_as_it_goes(scenario, tmp_path):
    assert Seen(page(certificate(scenario=scenario), tmp_path)).open == []


def test_options_of_a_run_are_quoted_for_a_shell():
    found = certificate(options={"plan": "true", "context": "a b", "record": "acp=4.4", "report-dir": "/x"})
    assert command(found) == "rebalance-conformance run '--context=a b' --record=acp=4.4"


def test_what_was_not_tested_is_grouped_by_reason_worst_first():
    found = certificate(
        row("A-1", Status.NOT_SELECTED, "r"), row("B-1", Status.INCONCLUSIVE, "q"), row("C-1", Status.NOT_SELECTED, "r")
    )
    assert [(o, r, [c.id for c in rows]) for o, r, rows in untested(found)] == [
        ("inconclusive", "q", ["B-1"]),
        ("not-selected", "r", ["A-1", "C-1"]),
    ]
