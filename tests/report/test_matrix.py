"""Matrix: rows by combination, changes between neighbours, files that are no certificates, pages that cannot be injected into."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
import yaml

from fixtures.checks import Evidence, Level, Status
from fixtures.launcher.__main__ import main
from fixtures.quarantine import Quarantine
from fixtures.report.certificate import Certificate
from fixtures.report.files import write
from fixtures.report.matrix.agreement import disagreements, known_failures
from fixtures.report.matrix.changes import components, drifts, flips
from fixtures.report.matrix.collect import Entry, collect
from fixtures.report.matrix.model import Matrix, join, order
from fixtures.report.matrix.render import as_wire, html, markdown
from tests.report.samples import HOSTILE, certificate, hostile, move, row, scenario
from tests.report.test_page import Seen


def matrix(*certificates: Certificate) -> Matrix:
    return join([Entry(Path(f"/runs/{n}/report.yaml"), c) for n, c in enumerate(certificates)])


def failing(check: str = "POL-8") -> tuple:
    return (row(check, Status.FAILED, "why"),)


GOOD = (row("POL-8"),)


def test_a_row_a_combination_in_the_order_of_versions_real_clusters_first():
    found = matrix(
        certificate(kubevirt="v1.10.0"),
        certificate(kubevirt="v1.9.0"),
        certificate(kubevirt="1.9.0-rc.1"),
        certificate(source="live"),
    )
    assert [(r.source, r.versions["KubeVirt"]) for r in found.rows] == [
        ("live", "v1.8.4"),
        ("embedded", "1.9.0-rc.1"),
        ("embedded", "v1.9.0"),
        ("embedded", "v1.10.0"),
    ]


def test_of_several_runs_the_newest_counts_whatever_the_order():
    old, new = certificate(*failing(), taken_at="2026-01-01T00:00:00Z"), certificate(*GOOD, taken_at="2026-01-02T00:00:00+01:00")
    for pair in ((old, new), (new, old)):
        (only,) = matrix(*pair).rows
        assert only.newest.certificate is new
        assert len(only.runs) == 2


def test_a_cell_shows_the_worst_outcome_and_leads_to_it():
    cells = matrix(certificate(*failing(), row("POL-9", Status.INCONCLUSIVE), row("SEC-1", Status.NOT_SELECTED))).rows[0].cells
    assert (cells["POL"].outcome, cells["POL"].count, cells["POL"].of, cells["POL"].first) == (Status.FAILED, 1, 3, "POL-8")
    assert cells["SEC"].outcome is Status.NOT_SELECTED
    assert cells["REN"].outcome is Status.PASSED


def test_a_known_failure_is_shown_as_that_and_breaks_and_mends_like_one():
    known = (replace(row("POL-8", Status.QUARANTINED), quarantine=Quarantine("POL-8", "OPS-7", date(2099, 12, 31))),)
    found = matrix(
        certificate(*GOOD, kubevirt="v1.6.0"), certificate(*known, kubevirt="v1.7.0"), certificate(*GOOD, kubevirt="v1.8.0")
    )
    assert (found.rows[1].cells["POL"].outcome, found.rows[1].cells["POL"].first) == (Status.QUARANTINED, "POL-8")
    assert [(f.kind, f.newer) for f in flips(found)] == [("breaks", "v1.7.0"), ("mends", "v1.8.0")]
    assert "! 1/2" in markdown(found, [], [], Path("/runs"))


def test_the_first_bad_and_the_first_good_version_are_found_once_for_all_other_versions():
    found = matrix(
        *[
            certificate(*(failing() if k == "v1.7.0" else GOOD), kubevirt=k, image=i)
            for k in ("v1.6.0", "v1.7.0", "v1.8.0")
            for i in ("v0.34.0", "v0.36.0")
        ]
    )
    told = [(f.kind, f.product, f.check, f.older, f.newer, f.elsewhere) for f in flips(found)]
    elsewhere = ("descheduler image v0.34.0", "descheduler image v0.36.0")
    assert told == [
        ("breaks", "KubeVirt", "POL-8", "v1.6.0", "v1.7.0", elsewhere),
        ("mends", "KubeVirt", "POL-8", "v1.7.0", "v1.8.0", elsewhere),
    ]
    wire = as_wire(found, [], [], Path("/runs"))
    assert wire["firstBad"] == [{"product": "KubeVirt", "check": "POL-8", "lastGood": "v1.6.0", "firstBad": "v1.7.0"}]
    assert wire["firstGood"] == [{"product": "KubeVirt", "check": "POL-8", "lastBad": "v1.7.0", "firstGood": "v1.8.0"}]


def test_a_product_that_follows_another_is_told_with_it():
    def pair(kubevirt: str, hco: str, *rows):
        found = certificate(*rows, kubevirt=kubevirt)
        return replace(
            found, versions=tuple(replace(v, version=hco) if v.product == "HyperConverged" else v for v in found.versions)
        )

    found = matrix(pair("1.7.0", "1.17.0", *GOOD), pair("1.8.0", "1.18.0", *failing()))
    assert list(components(found)) == ["KubeVirt"]
    (flip,) = flips(found)
    assert (flip.product, flip.together) == ("KubeVirt", ("HyperConverged",))


def test_rows_that_differ_in_two_products_are_no_neighbours():
    rows = [certificate(*GOOD, kubevirt="1.7.0", image="0.34.0"), certificate(*GOOD, kubevirt="1.7.0", image="0.36.0")]
    rows += [certificate(*GOOD, kubevirt="1.8.0", image="0.34.0"), certificate(*failing(), kubevirt="1.8.0", image="0.36.0")]
    assert {(f.product, f.older, f.newer) for f in flips(matrix(*rows))} == {
        ("KubeVirt", "1.7.0", "1.8.0"),
        ("descheduler image", "0.34.0", "0.36.0"),
    }


def test_simulated_and_real_runs_are_never_neighbours():
    assert flips(matrix(certificate(*GOOD, kubevirt="1.7.0"), certificate(*failing(), kubevirt="1.8.0", source="live"))) == []


def test_an_embedded_cluster_that_was_reached_like_a_real_one_stays_apart_from_real_ones():
    def on(version: str, source: str) -> Certificate:
        found = certificate(*GOOD, source=source)
        rows = tuple(replace(v, version=version) if v.product == "Kubernetes" else v for v in found.versions)
        return replace(found, versions=rows, verdict=replace(found.verdict, simulated=version.endswith("+emulated")))

    found = matrix(on("v1.35.0+emulated", "live"), on("v1.35.0+emulated", "embedded"), on("v1.35.0", "live"))
    assert [(r.source, r.simulated) for r in found.rows] == [("live", False), ("embedded", True), ("live", True)]
    assert flips(found) == []
    text = html(found, [], [], Path("/runs"))
    assert text.index("Real clusters and files</th>") < text.index("Simulated: embedded clusters</th>")
    assert "<title>Compat" in text
    assert "conformant (live-migration, simulated)</a>" in text
    told = "2 of 3 combinations are simulated: they ran on an embedded cluster and certify no real one."
    assert f'<p class="simulated">{told}</p>' in text
    assert f"**{told}**" in markdown(found, [], [], Path("/runs"))
    assert [r["simulated"] for r in as_wire(found, [], [], Path("/runs"))["rows"]] == [False, True, True]


def test_a_matrix_of_embedded_clusters_alone_says_so_everywhere():
    found = matrix(certificate())
    text = html(found, [], [], Path("/runs"))
    assert "<title>SIMULATED: " in text
    assert 'class="watermark"' in text
    assert "No real cluster was certified." in markdown(found, [], [], Path("/runs"))
    for real in (html, markdown):
        assert "imulated" not in re.sub(
            r"<style>.*</style>", "", real(matrix(certificate(source="live")), [], [], Path("/r")), flags=re.S
        )


def test_a_run_with_something_planted_does_not_speak_for_its_versions():
    planted = replace(certificate(*failing(), taken_at="2026-02-01T00:00:00Z"), options={"defect": "gate-not-rendered"})
    (only,) = matrix(certificate(*GOOD), planted).rows
    assert only.newest.certificate.planted == ""
    assert only.runs[1].certificate.planted == "defect gate-not-rendered"


def test_required_checks_without_an_outcome_are_missing():
    found = matrix(
        certificate(row("POL-3")), certificate(row("POL-3", Status.SKIPPED), kubevirt="1.9.0"), certificate(kubevirt="1.9.1")
    )
    assert [found.missing(r) for r in found.rows] == [[], ["POL-3"], ["POL-3"]]
    assert matrix(certificate(row("POL-8", Status.SKIPPED, level=Level.RECOMMENDED))).missing(found.rows[0]) == []


def test_a_run_or_a_check_that_takes_much_longer_than_its_like_is_drift():
    usual = [certificate(row("POL-3", seconds=1.0), kubevirt=f"1.{m}.0") for m in (5, 6, 7)]
    slow = certificate(row("POL-3", seconds=4.0), kubevirt="1.8.0", seconds=60.0)
    assert [(d.check, d.seconds, d.usual) for d in drifts(matrix(*usual, slow))] == [("", 60.0, 9.5), ("POL-3", 4.0, 1.0)]
    assert drifts(matrix(*usual)) == []


@pytest.mark.parametrize("text", ["", "unknown", "not installed", "banana", "v", "1.8.4-", "ACP", "v1.2.3.4.5.6.7.8.9"])
def test_any_version_text_has_a_place(text):
    assert sorted([order(text), order("v1.9.0"), order("ACP 4.4")])


def test_what_was_observed_is_told_from_the_moves():
    told = scenario() | {"moves": [move(1), move(2) | {"priority": "system-critical"}, 5, {"markers": "x"}]}
    (found,) = matrix(certificate(scenario=told)).rows
    assert found.observed == {
        "eviction-in-progress": "true, none",
        "eviction-source": "descheduler, none",
        "priority": "none, system-critical",
    }


@pytest.mark.parametrize(
    ("kubevirt", "wrong"),
    [("v1.8.4", []), ("v1.9.0", ["priority was none"]), ("v1.6.0", ["eviction-in-progress was true", "eviction-source was"])],
)
def test_a_row_is_held_against_the_version_tables(kubevirt, wrong):
    (only,) = matrix(certificate(kubevirt=kubevirt)).rows
    told = disagreements(only)
    assert len(told) == len(wrong)
    assert all(part in text for part, text in zip(wrong, told, strict=True))


def test_a_failure_that_the_tables_do_not_know_is_a_disagreement():
    (only,) = matrix(certificate(*failing(), row("POL-9", Status.SKIPPED, "x"))).rows
    assert [t.split(": ", 1)[1] for t in disagreements(only)] == ["POL-8 failed: why", "POL-9 skipped: x"]
    pair = {"kubevirt": "v1.9.0", "image": "v0.34.0"}
    for rows, told in ((failing("BGE-7"), []), ((row("BGE-7"),), ["BGE-7 passed, the version tables say that it fails"])):
        (only,) = matrix(certificate(*rows, **pair)).rows
        assert [t.split(": ", 1)[1] for t in disagreements(only) if "BGE-7" in t] == told
    (strange,) = matrix(certificate(kubevirt="nightly")).rows
    assert "no facts about" in disagreements(strange)[0] or "not a version" in disagreements(strange)[0]


def test_known_defects_are_recorded_where_the_table_has_them_and_nowhere_else():
    defect = Evidence("known defect", "KubeVirt", "the marker goes with a failed attempt")

    def told(kubevirt: str, *evidence: Evidence) -> list[str]:
        (only,) = matrix(certificate(row("BGE-10", evidence=evidence), kubevirt=kubevirt)).rows
        return [t.split(": ", 1)[1] for t in disagreements(only) if "BGE-10" in t]

    assert told("1.6.0", defect) == told("1.6.1") == []
    assert told("1.6.0") == ["BGE-10 records no known defect, the version table has one"]
    assert told("1.6.1", defect) == ["BGE-10 records a known defect, the version table has none"]


def test_what_a_release_does_not_have_is_not_applicable_and_only_there():
    def told(kubevirt: str, status: Status) -> list[str]:
        (only,) = matrix(certificate(row("INT-6", status), kubevirt=kubevirt)).rows
        return [t.split(": ", 1)[1] for t in disagreements(only) if "INT-6" in t]

    assert told("1.6.1", Status.NOT_APPLICABLE) == told("1.7.4", Status.PASSED) == []
    assert told("1.6.1", Status.PASSED) == ["INT-6 passed, the version table says not applicable"]
    assert told("1.7.4", Status.NOT_APPLICABLE) == ["INT-6 not-applicable, the version table says that it applies"]


@pytest.mark.parametrize(
    ("kubevirt", "descheduler", "known"), [("1.9.0", "0.34.0", {"BGE-7"}), ("1.9.0", "0.35.0", set()), ("1.8.4", "0.34.0", set())]
)
def test_sidecars_that_the_descheduler_does_not_count_are_a_known_failure(kubevirt, descheduler, known):
    assert known_failures(kubevirt=kubevirt, descheduler=descheduler) == known


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path / "runs"
    write(certificate(*GOOD, kubevirt="1.8.4"), {}, folder / "a")
    write(certificate(*failing(), kubevirt="1.9.0"), {}, folder / "b")
    return folder


BAD = {
    "truncated": lambda text: text[: len(text) // 2],
    "foreign": lambda text: "apiVersion: v1\nkind: Pod\n",
    "binary": lambda text: "\x00\x01",
    "deep": lambda text: "a: " + "[" * 5000,
    "huge": lambda text: "x" * (9 * 1024 * 1024),
    "forged": lambda text: text.replace("simulated: true", "simulated: false"),
    "aliases": lambda text: text.replace("engine: reference", "engine: &a [" + "x," * 9 + "]\nb: &b [*a, *a]\nc: [*b, *b]"),
    "empty": lambda text: "",
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_a_message_and_the_rest_is_still_joined(runs, kind, capsys):
    (runs / "bad").mkdir()
    good = (runs / "a/report.yaml").read_text()
    (runs / "bad/report.yaml").write_text(BAD[kind](good))
    out = runs.parent / "m.json"
    assert main(["matrix", str(runs), "-o", str(out)]) == 0
    found = json.loads(out.read_text())
    assert len(found["rows"]) == 2
    (problem,) = found["problems"]
    assert problem.startswith(f"{runs}/bad/report.yaml: ")
    assert problem in capsys.readouterr().err


def test_duplicates_count_once_and_older_schemas_are_read_as_far_as_they_go(runs, capsys):
    (runs / "c").mkdir()
    (runs / "c/report.yaml").write_bytes((runs / "a/report.yaml").read_bytes())
    old = yaml.safe_load((runs / "a/report.yaml").read_text())
    for key in ("cost", "suite", "takenAt", "statistics"):
        del old[key]
    old |= {"apiVersion": "vm-rebalance-conformance/v1alpha0"}
    old["versions"][2]["version"] = "1.5.0"
    (runs / "old").mkdir()
    (runs / "old/report.yaml").write_text(yaml.safe_dump(old))
    found = collect([runs])
    assert (len(found.entries), found.problems) == (3, [])
    assert any("counted once" in n for n in found.notes)
    assert any("'vm-rebalance-conformance/v1alpha0', read as v1alpha1" in n for n in found.notes)


def test_the_page_links_to_reports_and_is_well_formed(runs):
    out = runs.parent / "site" / "matrix.html"
    assert main(["matrix", str(runs), "-o", str(out)]) == 0
    seen = Seen(out.read_text())
    assert seen.open == []
    links = {v for k, v in seen.attributes if k == "href"}
    assert {"../runs/a/report.html", "../runs/b/report.html#POL-8"} <= links
    assert all((out.parent / (v or "").partition("#")[0]).is_file() for v in links)


def test_hostile_certificates_stay_texts_in_every_format(tmp_path):
    folder = tmp_path / 'a"><script>x<' / "javascript:alert(1)"
    write(hostile(), {}, folder)
    entries = collect([tmp_path]).entries
    assert len(entries) == 1
    joined = join([*entries, Entry(Path("/x"), certificate(source="live"))])
    told = [HOSTILE], [HOSTILE]
    seen = Seen(html(joined, *told, tmp_path))
    assert not {"script", "img"} & set(seen.tags)
    assert not [v for k, v in seen.attributes if k == "href" and ":" in (v or "")]
    text = markdown(joined, *told, tmp_path)
    assert "<script>" not in text
    assert "<img" not in text
    json.dumps(as_wire(joined, *told, tmp_path))


def test_without_a_certificate_the_status_says_so(tmp_path, capsys):
    assert main(["matrix", str(tmp_path)]) == 4
    assert "no report.yaml in it or below" in capsys.readouterr().err
    assert main(["matrix", str(tmp_path / "none.yaml")]) == 4


@pytest.mark.parametrize("args", [["-o", "x.pdf"], ["-o", "/proc/none/x.md"]])
def test_what_cannot_be_written_is_bad_usage(runs, args, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["matrix", str(runs), *args])
    assert ended.value.code == 4
    assert f"-o {args[1]}: " in capsys.readouterr().err


def test_markdown_goes_to_the_terminal_by_default(runs, capsys):
    assert main(["matrix", str(runs)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("# Compatibility of 2 version combinations")
    assert "| breaks | KubeVirt | POL-8 | 1.8.4 | 1.9.0 | passed → failed |" in out
