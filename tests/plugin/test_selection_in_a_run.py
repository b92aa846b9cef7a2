"""What is selected, what is not and why, and in which order it runs."""

from __future__ import annotations

import pytest

MIXED = """
@check("MIG-1", impact=DIS, source="s", needs=["engine"])
def test_mig():
    "It moves."

@check("BGE-2", impact=NS, source="s", needs=["engine"])
def test_bge():
    "It is ignored."

@check("VER-1", impact=RO, source="s")
def test_ver():
    "Versions are known."

@check("POL-10", impact=RO, source="s")
def test_pol10():
    "Ten."
"""


def test_read_only_checks_run_first_in_catalogue_order_and_mig_last(project):
    project.checks(MIXED + "\n@check('HCO-7', impact=DIS, source='s')\ndef test_h():\n    'H.'\n").run("-v")
    out = project.run("-v").stdout.str()
    names = ("test_policy", "test_pol10", "test_gate", "test_interceptor", "test_ver", "test_h", "test_bge", "test_mig")
    places = [out.index(f"::{n} ") for n in names]
    assert places == sorted(places)


def test_check_selects_by_id_and_area_in_any_case(project):
    project.checks(MIXED).run("--check=pol", "--check=ver-1")
    taken = {r["id"] for r in project.report["checks"] if r["outcome"] != "not-selected"}
    assert taken == {"POL-2", "POL-10", "VER-1"}
    assert project.row("MIG-1")["reason"] == "--check=POL,VER-1 does not name it"


def test_allow_bounds_the_impact(project):
    result = project.checks(MIXED).run("--allow=namespaced")
    assert result.ret == 0
    assert project.row("BGE-2")["outcome"] == "passed"
    assert project.row("MIG-1") | {"seconds": 0} == {
        "id": "MIG-1",
        "title": "It moves.",
        "source": "s",
        "level": "required",
        "impact": "disruptive",
        "outcome": "not-selected",
        "reason": "its impact is disruptive, --allow=namespaced stops before that",
        "seconds": 0,
    }
    result.stdout.fnmatch_lines(["*not selected: MIG-1: its impact is disruptive*"])


def test_what_the_cluster_cannot_do_is_not_selected(project):
    project.cluster(can="{Cap.READ, Cap.WRITE}").checks(MIXED).run()
    assert "it needs engine, which --cluster=embedded with --engine=reference does not offer" in project.row("MIG-1")["reason"]


def test_a_live_cluster_is_read_only_by_default_and_says_so_in_the_verdict(project):
    result = project.cluster(source="live").checks(MIXED).run("--cluster=live")
    assert result.ret == 0
    assert project.report["verdict"]["text"] == "conformant (read-only)"
    assert project.report["simulated"] is False


def test_a_selection_without_the_migration_never_certifies_one(project):
    project.cluster(source="live").checks(MIXED).run("--cluster=live", "--allow=disruptive", "--check=POL,REN,INT")
    assert project.report["verdict"]["text"] == "conformant (read-only)"
    project.run("--cluster=live", "--allow=disruptive")
    assert project.report["verdict"]["text"] == "conformant (live-migration)"


def test_a_run_narrower_than_required_is_partial(project):
    result = project.cluster(source="live").checks(MIXED).run("--cluster=live", "--require=live-migration")
    assert result.ret == 6
    assert "scope read-only is narrower than the required live-migration" in project.report["verdict"]["reasons"]


def test_what_pytest_itself_leaves_out_is_recorded(project):
    project.checks(MIXED).run("-k", "not ver")
    assert "-k" in project.row("VER-1")["reason"]
    assert project.row("VER-1")["outcome"] == "not-selected"


def test_plan_prints_both_sides_runs_nothing_and_exits_0(project):
    result = project.checks(MIXED + "\n@check('POL-1', impact=RO, source='s')\ndef test_p():\n    'P.'\n    assert False\n").run(
        "--plan", "--allow=namespaced"
    )
    assert result.ret == 0
    out = result.stdout.str()
    assert "would run (7)" in out
    assert "would not run (1), because" in out
    assert "its impact is disruptive" in out
    assert project.left == {"opened", "closed"}


def test_a_selection_of_nothing_says_which_option_lets_it_run(project):
    project.cluster(source="live").checks(MIXED)
    result = project.run("--cluster=live", "--check=MIG,BGE-2")
    assert result.ret == 4
    assert result.stderr.str().strip() == (
        "ERROR: --check=MIG,BGE-2: nothing is left to run (BGE-2: its impact is namespaced, --allow=read-only stops before that; "
        "MIG-1: its impact is disruptive, --allow=read-only stops before that); --allow=disruptive lets them run"
    )
    assert project.left == set()
    assert project.run("--cluster=live", "--check=MIG", "--plan").ret == 0


def test_some_checks_alone_are_told_to_certify_nothing(project):
    result = project.checks(MIXED).run("--check=POL-10")
    assert result.ret == 5
    out = " ".join(result.stdout.str().split())
    assert "- POL-2, REN-2, INT-1 did not run (not selected: --check=POL-10 does not name it)" in out
    assert "A run without POL-2, REN-2, INT-1 certifies nothing, however its checks came out; select these too" in out
    assert "A run without POL-2, REN-2, INT-1" in (project.path / "results" / "summary.md").read_text()


def test_collect_only_opens_no_cluster(project):
    result = project.checks(MIXED).run("--collect-only", "-q")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*test_policy*"])
    assert project.left == set()


def test_items_outside_conformance_are_ordinary_tests_and_start_nothing(project):
    project.checks(MIXED)
    (project.path / "tests").mkdir()
    (project.path / "tests" / "test_x.py").write_text("def test_x():\n    pass\n\ndef test_y():\n    assert 0\n")
    result = project.run("tests")
    assert result.ret == 1
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*test session starts*"])
    assert project.left == set()


@pytest.mark.parametrize("paths", [["conformance", "tests"], ["."]])
def test_checks_beside_ordinary_tests_are_judged_alone(project, paths):
    project.checks()
    (project.path / "tests").mkdir()
    (project.path / "tests" / "test_x.py").write_text("def test_x():\n    assert 0\n")
    result = project.run(*paths)
    assert project.report["verdict"]["word"] == "conformant"
    result.assert_outcomes(passed=3, failed=1)
    assert result.ret == 1


def test_a_function_without_the_marker_is_refused(project):
    result = project.checks("def test_x():\n    pass\n").run()
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*test_x: everything in conformance/ is declared with @check*"])


def test_an_id_is_declared_once(project):
    result = project.checks("@check('POL-2', impact=RO, source='s')\ndef test_x():\n    pass\n").run()
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*POL-2 is declared twice*"])
