"""What is printed during and after a run, apart from pytest."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from fixtures.checks import Impact, Level, Outcome, Scope, Spec, Status, Verdict, Word
from fixtures.options import parse
from fixtures.report.certificate import Certificate, CheckRow, ClusterRow, Suite, VersionRow
from fixtures.terminal import Terminal


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def plain(clock: Clock, width: int = 100) -> tuple[Terminal, io.StringIO]:
    out = io.StringIO()
    return Terminal(Console(file=out, width=width, highlight=False, markup=False), clock=clock), out


SPEC = Spec("MIG-4", Level.REQUIRED, Impact.DISRUPTIVE, "s")


def certificate(*rows: CheckRow, scenario=None) -> Certificate:
    return Certificate(
        suite=Suite("0"),
        taken_at="t",
        cluster=ClusterRow("embedded"),
        scope=Scope.SIMULATED,
        verdict=Verdict(Word.PARTIAL, Scope.SIMULATED, ("[bold]a[/bold] reason",)),
        checks=rows,
        scenario=scenario,
    )


def row(id: str, outcome: Status, reason: str = "") -> CheckRow:
    return CheckRow(id=id, title=f"title of {id}", level=Level.REQUIRED, impact=Impact.READ_ONLY, outcome=outcome, reason=reason)


def test_without_a_terminal_waits_print_a_line_every_ten_seconds_at_most(clock):
    terminal, out = plain(clock)
    terminal.start(SPEC, "title")
    for second in range(25):
        clock.now = 100.0 + second
        terminal.progress("the migration to succeed", second, 600)
    assert out.getvalue().splitlines() == [
        "MIG-4  the migration to succeed  10 s of at most 600 s",
        "MIG-4  the migration to succeed  20 s of at most 600 s",
    ]


def test_on_a_terminal_the_line_moves_in_place_and_is_gone_afterwards(clock):
    out = io.StringIO()
    terminal = Terminal(Console(file=out, width=60, force_terminal=True, color_system=None), clock=clock)
    terminal.start(SPEC, "title")
    for tenth in range(10):
        clock.now += 0.06
        terminal.progress("x" * 100, tenth, 600)
    terminal.say("done")
    text = out.getvalue()
    assert text.count("\n") == 1
    drawn = text.split("\r\x1b[2K")
    assert 4 <= len(drawn) <= 8
    assert all(len(part) <= 60 for part in drawn)
    assert drawn[-1] == "done\n"


def test_reasons_wrap_within_100_columns_and_markup_in_them_is_text(clock):
    terminal, out = plain(clock)
    terminal.summary(certificate(row("POL-2", Status.FAILED, "[red]long[/red] " + "word " * 80 + "x" * 300)), "out/report.yaml")
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 100
    assert "[red]long[/red]" in out.getvalue()
    assert "- [bold]a[/bold] reason" in lines


def test_a_version_that_is_a_digest_folds_and_leaves_room_for_where_it_was_read(clock):
    terminal, out = plain(clock)
    digest = "sha256:" + "0123456789abcdef" * 4
    read_from = "image registry.k8s.io/descheduler/descheduler of CronJob descheduler"
    found = replace(certificate(), versions=(VersionRow("descheduler image", digest, read_from),))
    terminal.summary(found, "out/report.yaml")
    lines = out.getvalue().splitlines()
    assert any(line.startswith("descheduler image") and "image registry.k8s.io" in line for line in lines)
    assert digest in "".join(line[18:44].strip() for line in lines if not line[44:45].strip())


def test_checks_stand_by_area_in_catalogue_order(clock):
    terminal, out = plain(clock)
    rows = [
        row("MIG-10", Status.PASSED),
        row("MIG-2", Status.PASSED),
        row("POL-1", Status.PASSED),
        row("REN-1", Status.NOT_SELECTED, "out"),
    ]
    terminal.summary(certificate(*rows), "r")
    text = out.getvalue()
    places = [
        text.index(w)
        for w in ("policy ConfigMap", "POL-1", "two-worker", "title of MIG-2", "title of MIG-10", "not selected: REN-1: out")
    ]
    assert places == sorted(places)


def test_the_migrated_vm_is_named_with_source_and_target(clock):
    terminal, out = plain(clock)
    move = {
        "vm": "vm-1",
        "vmiUID": "u-1",
        "source": "worker-1",
        "target": "worker-2",
        "vmim": "kubevirt-evacuation-x",
        "phase": "Succeeded",
    }
    terminal.summary(certificate(scenario={"moves": [move]}), "r")
    assert "VM vm-1 (VMI UID u-1): worker-1 -> worker-2 by kubevirt-evacuation-x Succeeded" in " ".join(out.getvalue().split())


def test_a_scenario_that_stopped_says_where_and_why(clock):
    terminal, out = plain(clock)
    terminal.summary(certificate(scenario={"reached": "locked", "stoppedBecause": "no second worker"}), "r")
    assert "the scenario stopped after locked: no second worker" in out.getvalue()


def test_a_live_run_names_the_cluster_and_the_most_it_will_do(clock):
    terminal, out = plain(clock)
    terminal.header(parse({"cluster": "live"}), "1", "me@https://prod:6443")
    assert "me@https://prod:6443, at most read-only checks" in out.getvalue()


def test_a_held_cluster_and_its_global_cluster_are_told(clock):
    terminal, out = plain(clock)
    terminal.hold("/home/me/kubeconfig", "descheduler", "/home/me/global-kubeconfig")
    assert "export KUBECONFIG=/home/me/kubeconfig\n" in out.getvalue()
    assert "kubectl --kubeconfig=/home/me/global-kubeconfig get moduleinfo\n" in out.getvalue()
    terminal, out = plain(clock)
    terminal.hold("/home/me/kubeconfig", "descheduler")
    assert "moduleinfo" not in out.getvalue()


def test_the_header_names_what_was_planted(clock):
    terminal, out = plain(clock)
    settings = parse({"defect": ["gate-not-rendered"]}, names={"defect": lambda: ["gate-not-rendered"]})
    terminal.header(settings, "1.2", "")
    assert "VM rebalance conformance 1.2: embedded cluster (simulated), engine reference" in out.getvalue()
    assert "planted: defect gate-not-rendered" in out.getvalue()


def test_what_a_cluster_says_does_not_act_on_the_terminal(clock):
    terminal, out = plain(clock)
    terminal.summary(certificate(scenario={"reached": "locked", "stoppedBecause": "\x1b]0;title\x07no \u202eworker"}), "r")
    assert "\ufffd]0;titleno \ufffdworker" in out.getvalue()
    assert Outcome("POL-2", Status.FAILED, "a\x1b[31m").reason == "a\ufffd[31m"
