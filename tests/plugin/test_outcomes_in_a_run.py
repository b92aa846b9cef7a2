"""Outcomes, verdict and exit status of whole runs."""

from __future__ import annotations

import textwrap

import pytest


def test_a_healthy_run_is_conformant_and_exits_0(project):
    result = project.checks().run()
    assert result.ret == 0
    assert project.report["verdict"] == {"text": "conformant (simulated)", "word": "conformant"}
    result.stdout.fnmatch_lines(["*conformant (simulated)*", "*certificate: results/report.yaml*"])
    assert project.report["cluster"]["identity"].startswith("sha256:")
    assert "11111111" not in (project.path / "results/report.yaml").read_text()
    assert (project.path / "closed").exists()


def test_the_output_is_a_product_not_a_test_log(project):
    out = project.checks().run().stdout.str()
    for noise in ("test session starts", "rootdir", "collected", "plugins:", "===", "passed in", "::", "%]"):
        assert noise not in out
    assert max(len(line) for line in out.splitlines()) <= 100
    assert "KubeVirt" in out
    assert "1.8.4" in out


ENDINGS = {
    "failed": ("assert False, 'args lack the gate'", "failed", "args lack the gate", 1),
    "failed without message": ("assert [1] == [2]", "failed", "assert [1] == [2]", 1),
    "pytest.fail": ("pytest.fail('not good')", "failed", "not good", 1),
    "not applicable": ("not_applicable('no HCO is served')", "not-applicable", "no HCO is served", 0),
    "skipped": ("skipped('nobody may look')", "skipped", "nobody may look", 6),
    "pytest.skip": ("pytest.skip('later')", "skipped", "later", 6),
    "inconclusive": ("inconclusive('no control')", "inconclusive", "no control", 6),
    "denied": ("raise Denied('me may not list pods')", "skipped", "me may not list pods", 6),
    "not recorded": ("raise NotRecorded('no pods in the dump')", "inconclusive", "no pods in the dump", 6),
    "not installed": (
        "raise NotInstalled(Probe('d', Presence.ABSENT, 'no CronJob'))",
        "not-applicable",
        "no CronJob",
        0,
    ),
    "not to be seen": ("raise NotInstalled(Probe('d', Presence.UNKNOWN, 'denied'))", "inconclusive", "denied", 6),
    "suite error": (
        "{}['x']",
        "inconclusive",
        "error in the suite: KeyError: 'x' (-v shows where; please report it)",
        6,
    ),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_the_way_a_check_ends_decides_its_outcome(project, name):
    body, outcome, reason, status = ENDINGS[name]
    result = project.checks(f'@check("POL-7", impact=RO, source="s")\ndef test_x():\n    "It holds."\n    {body}\n').run()
    assert (project.row("POL-7")["outcome"], project.row("POL-7")["reason"], result.ret) == (outcome, reason, status)
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    assert "test_some.py" not in result.stdout.str()


@pytest.mark.parametrize("name", ENDINGS)
def test_a_recommended_check_does_not_decide_the_verdict(project, name):
    body, outcome, _, _ = ENDINGS[name]
    text = f'@check("POL-8", level=Level.RECOMMENDED, impact=RO, source="s")\ndef test_x():\n    "It holds."\n    {body}\n'
    result = project.checks(text).run()
    assert project.row("POL-8")["outcome"] == outcome
    assert result.ret == (6 if name == "suite error" else 0)


def test_trouble_with_the_api_in_a_fixture_skips_every_check_that_needs_it(project):
    text = """
@pytest.fixture(scope="session")
def pods():
    raise Denied("me may not list pods")

@check("INT-3", impact=RO, source="s")
def test_a(pods):
    "A."

@check("INT-2", impact=RO, source="s")
def test_b(pods):
    "B."
"""
    result = project.checks(text).run()
    assert result.ret == 6
    assert [project.row(i)["outcome"] for i in ("INT-2", "INT-3")] == ["skipped", "skipped"]
    assert "INT-3 skipped: me may not list pods" in project.report["verdict"]["reasons"]


def test_a_clean_up_that_fails_takes_a_pass_back(project):
    text = """
@pytest.fixture
def room():
    yield
    raise RuntimeError("cannot tidy up")

@check("INT-5", impact=NS, source="s")
def test_a(room):
    "A."
"""
    result = project.checks(text).run()
    assert result.ret == 6
    assert project.row("INT-5")["outcome"] == "inconclusive"
    assert "while cleaning up: RuntimeError: cannot tidy up" in project.row("INT-5")["reason"]


def test_a_missing_cornerstone_is_unknown_and_exits_5(project):
    result = project.checks('@check("POL-1", impact=RO, source="s")\ndef test_x():\n    "X."\n', cornerstones=False).run()
    assert result.ret == 5
    assert project.report["verdict"]["text"] == "unknown (simulated)"


def test_what_could_not_be_restored_exits_7_whatever_else_happened(project):
    text = """
@check("MIG-13", impact=DIS, source="s")
def test_x(run):
    "X."
    run.not_restored.append("the policy ConfigMap differs")
    assert False, "differs"
"""
    result = project.checks(text).run()
    assert result.ret == 7
    assert project.report["verdict"]["notRestored"] == ["the policy ConfigMap differs"]
    result.stdout.fnmatch_lines(["*the policy ConfigMap differs*"])


def test_a_level_may_depend_on_what_was_probed(project):
    rule = "level=lambda facts: Level.REQUIRED if facts['platform'] == 'acp' else Level.RECOMMENDED"
    result = project.checks(
        f'@check("POL-4", {rule}, impact=RO, source="s")\ndef test_x():\n    "X."\n    assert False, "no"\n'
    ).run()
    assert project.row("POL-4")["level"] == "required"
    assert result.ret == 1


def test_level_rules_and_certificate_know_what_is_served(project):
    rule = "level=lambda facts: Level.REQUIRED if facts['kubevirts.kubevirt.io'] == 'present' else Level.RECOMMENDED"
    project.checks(f'@check("POL-4", {rule}, impact=RO, source="s")\ndef test_x():\n    "X."\n').run()
    assert project.row("POL-4")["level"] == "required"
    found = {f["feature"]: f["presence"] for f in project.report["features"]}
    assert found["kubevirts.kubevirt.io"] == "present"
    assert found["kubedeschedulers.operator.openshift.io"] == "absent"


def test_a_scenario_that_was_not_undone_is_in_the_certificate_and_exits_7(project):
    text = """
from fixtures.scenario.record import Reached, RollBack, ScenarioRecord
from fixtures.subjects import keep

@check("MIG-1", impact=DIS, source="s")
def test_x(run):
    "X."
    keep(run, ScenarioRecord(reached=Reached.BALANCED, rollback=RollBack(left_behind=["namespace x"])))
"""
    result = project.checks(text).run()
    assert result.ret == 7
    assert project.report["scenario"]["reached"] == "balanced"
    wanted = ["left behind: namespace x", "the installed descheduler is still stopped"]
    assert project.report["verdict"]["notRestored"] == wanted


def test_a_check_of_several_tests_has_the_worst_outcome(project):
    text = """
@pytest.mark.parametrize("v", [1, 2, 3])
@check("HCO-1", impact=RO, source="s")
def test_x(v):
    "X."
    assert v != 2, f"version {v} lacks the path"
"""
    result = project.checks(text).run()
    assert result.ret == 1
    assert project.row("HCO-1")["reason"] == "version 2 lacks the path"


def test_failures_are_explained_with_v_only(project):
    text = '@check("POL-7", impact=RO, source="s")\ndef test_x():\n    "X."\n    secret = 4\n    assert secret == 5, "wrong"\n'
    assert "secret = 4" not in project.checks(text).run().stdout.str()
    for flags in (["-v"], ["--tb=long"]):
        result = project.run(*flags)
        assert "secret = 4" in result.stdout.str()
        assert result.ret == 1


def test_checks_that_never_had_their_turn_are_skipped_not_passed(project):
    result = project.checks('@check("HCO-1", impact=RO, source="s")\ndef test_x():\n    "X."\n    assert False, "no"\n').run("-x")
    assert result.ret == 1
    assert project.row("INT-1")["reason"] == "the run ended before its turn"


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interrupted_run_still_leaves_a_certificate(project, number, hang_ups):
    sent = f"import signal\n    signal.raise_signal(signal.{number})"
    text = f'@check("HCO-1", impact=RO, source="s")\ndef test_x():\n    "X."\n    {sent}\n'
    result = project.checks(text).run()
    assert result.ret == 2
    assert project.report["verdict"]["word"] == "unknown"
    assert project.report["interrupted"] is True
    assert project.row("HCO-1")["reason"] == "interrupted while it ran"
    assert project.row("INT-1")["reason"] == "the run was interrupted before its turn"
    result.stdout.fnmatch_lines(["*interrupted: what has no outcome above did not run*"])
    assert (project.path / "closed").exists()


def test_a_run_interrupted_after_everything_required_is_partial(project):
    text = '@check("VER-1", level=Level.RECOMMENDED, impact=RO, source="s")\ndef test_x():\n    "X."\n    raise KeyboardInterrupt\n'
    result = project.checks(text).run()
    assert result.ret == 2
    assert project.report["verdict"]["reasons"] == ["the run was interrupted"]
    assert project.report["verdict"]["word"] == "partial"


def test_a_run_interrupted_while_it_connects_says_so_and_leaves_no_certificate(project):
    result = project.cluster(opening="raise KeyboardInterrupt").checks().run()
    assert result.ret == 2
    result.stdout.fnmatch_lines(["*interrupted before any check ran; there is no certificate*"])
    assert project.left == set()


def test_an_interrupted_run_is_not_held(project):
    text = '@check("HCO-1", impact=RO, source="s")\ndef test_x():\n    "X."\n    raise KeyboardInterrupt\n'
    result = project.checks(text).run("--hold")
    assert result.ret == 2
    assert "HOLDING" not in result.stdout.str()


def test_a_suite_that_cannot_be_collected_says_why_and_opens_nothing(project):
    result = project.checks("import no_such_module\n").run()
    assert result.ret == 2
    result.stdout.fnmatch_lines(["*no_such_module*"])
    assert project.left == set()


def test_a_bug_of_the_simulated_cluster_is_an_error_of_the_suite_where_it_was_met(project):
    """What a check saw of a cluster that was broken from inside says nothing, whether it passed or failed."""
    text = """
        @check("POL-7", impact=RO, source="s")
        def test_x(request):
            "It holds."
            from fixtures.run import RUN_CLUSTER
            type(request.config.stash[RUN_CLUSTER]).troubles = lambda self: ["controller kubelet on a/b: KeyError: 'x'"]

        @check("REN-1", impact=RO, source="s")
        def test_y():
            "It holds, too."
    """
    result = project.checks(textwrap.dedent(text)).run()
    assert result.ret == 6
    assert project.row("POL-7")["outcome"] == "inconclusive"
    assert project.row("POL-7")["suiteError"] is True
    assert "error in the suite: RuntimeError: controller kubelet on a/b: KeyError: 'x'" in project.row("POL-7")["reason"]
    assert project.row("REN-1")["outcome"] == "passed"
    assert project.report["verdict"]["word"] == "partial"
