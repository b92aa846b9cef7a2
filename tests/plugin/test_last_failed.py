"""``--lf``: what failed by the certificate runs again, and the verdict does not pretend that the rest did."""

from __future__ import annotations

import pytest

SOME = """
import pathlib

@check("POL-7", impact=RO, source="s")
def test_pol7():
    "It holds."
    assert pathlib.Path("mended").exists(), "not yet"

@check("HCO-1", impact=RO, source="s")
def test_hco():
    "It is there."
    {}["x"]
"""
#: With pytest's own cache, as in a checkout; and without it, as the launcher starts pytest.
WAYS = {"checkout": ("-o", "addopts=--import-mode=importlib"), "launcher": ()}


def selected(project):
    return {r["id"] for r in project.report["checks"] if r["outcome"] != "not-selected"}


@pytest.mark.parametrize("way", WAYS)
def test_what_failed_runs_again_and_alone_certifies_nothing(project, way):
    assert project.checks(SOME).run(*WAYS[way]).ret == 1
    result = project.run(*WAYS[way], "--lf")
    assert selected(project) == {"POL-7", "HCO-1"}
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*--lf: only POL-7, HCO-1, which failed by results/report.yaml*"])
    (project.path / "mended").touch()
    result = project.run(*WAYS[way], "--lf", "--check=POL,HCO")
    assert selected(project) == {"POL-7", "HCO-1"}
    assert result.ret == 5
    assert project.report["verdict"]["reasons"][0] == "POL-2 did not run (not selected: --lf: it did not fail in the run before)"
    result.stdout.fnmatch_lines(["*A run without POL-2, REN-2, INT-1 certifies nothing*"])
    project.run(*WAYS[way], "--lf")
    assert selected(project) == {"HCO-1"}


@pytest.mark.parametrize("way", WAYS)
def test_where_nothing_failed_everything_runs(project, way):
    result = project.checks().run(*WAYS[way], "--lf")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*--lf: there is no results/report.yaml, so everything selected runs*"])
    result = project.run(*WAYS[way], "--lf")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*--lf: nothing failed by results/report.yaml, so everything selected runs*"])


def test_a_failure_outside_the_selection_is_no_reason_to_run_something_else(project):
    project.checks(SOME).run()
    result = project.run("--lf", "--check=REN")
    assert result.ret == 4
    message = "--check=REN: nothing is left to run (REN-2: --lf: it did not fail in the run before)"
    assert message in result.stderr.str()


def test_a_certificate_that_cannot_be_read_is_told(project):
    project.checks().run()
    (project.path / "results" / "report.yaml").write_text("kind: Certificate")
    result = project.run("--lf")
    assert result.ret == 4
    assert "ERROR: --lf: results/report.yaml: apiVersion: missing" in result.stderr.str()


def test_the_page_repeats_the_selection_not_the_option(project):
    project.checks(SOME).run()
    project.run("--lf")
    assert "rebalance-conformance run --check=POL-7,HCO-1" in (project.path / "results" / "report.html").read_text()


def test_what_another_plugin_leaves_out_later_is_not_selected(project):
    project.checks(SOME)
    text = """

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config, items):
    yield
    config.hook.pytest_deselected(items=[i for i in items if i.name == "test_hco"])
    items[:] = [i for i in items if i.name != "test_hco"]
"""
    conftest = project.path / "conftest.py"
    conftest.write_text(conftest.read_text() + text)
    project.run()
    assert project.row("HCO-1")["outcome"] == "not-selected"
