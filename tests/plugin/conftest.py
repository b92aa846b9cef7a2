"""A small project with checks of its own and a cluster made of a dictionary, driven by the real plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import allure_pytest.plugin  # noqa: F401 (each run in here would import them anew)
import pytest
import rich.table  # noqa: F401
import yaml

import fixtures.certifier
import fixtures.exercises
import fixtures.subjects
import fixtures.versions  # noqa: F401

INI = """
[pytest]
testpaths = conformance
python_files = test_*.py
addopts = --import-mode=importlib --strict-markers --strict-config -p no:cacheprovider -p allure_pytest.plugin
filterwarnings = error
"""

CONFTEST = """
import pathlib

import pytest

from fixtures.cluster.api import Cap, Denied, Presence, Probe, Unreachable
from fixtures.report.certificate import VersionRow

pytest_plugins = ("fixtures.plugin",)

CAN = frozenset({can})


class FakeCluster:
    source, can, address, journal, warnings = "{source}", CAN, "me@https://fake", None, []
    kubeconfig = pathlib.Path("/nowhere/kubeconfig")

    def __init__(self):
        self.progress = None
        self.clock = 1_800_000_000.0

    def now(self):
        return self.clock

    def get(self, resource, name, *, ns=None):
        return {{"metadata": {{"name": name, "uid": "11111111-2222"}}}}

    def list(self, resource, *, ns=None, labels=None, fields=None):
        return []

    def version(self):
        return {{"gitVersion": "v1.35.0"}}

    def serves(self, resource):
        return True

    def probe(self, feature):
        there = feature.endswith(".kubevirt.io")
        return Probe(feature, Presence.PRESENT if there else Presence.ABSENT, "discovery of the fake")

    def hold(self):
        print("HOLDING")
        raise KeyboardInterrupt

    def close(self):
        pathlib.Path("closed").write_text("yes")


@pytest.hookimpl(tryfirst=True)
def pytest_rebalance_cluster(settings):
    {opening}
    pathlib.Path("opened").write_text(settings.cluster)
    return FakeCluster()


def pytest_rebalance_learn(run, cluster):
    run.versions = (VersionRow("KubeVirt", "1.8.4", "KubeVirt CR status"),)
    run.facts["platform"] = "acp"
"""

HEAD = """
import pytest
from fixtures.checks import *
from fixtures.checks import inconclusive, not_applicable, skipped
from fixtures.cluster.api import Denied, NotRecorded, Presence, Probe
from fixtures.cluster.discover import NotInstalled

RO, NS, DIS = Impact.READ_ONLY, Impact.NAMESPACED, Impact.DISRUPTIVE
"""

CORNERSTONES = """
@check("POL-2", impact=RO, source="s")
def test_policy():
    '''The policy parses.'''

@check("REN-2", impact=RO, source="s")
def test_gate():
    '''The gate is on.'''

@check("INT-1", impact=RO, source="s")
def test_interceptor():
    '''The interceptor is registered.'''
"""


class Project:
    """Writes the project, runs pytest in it, reads what came out."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path: Path = pytester.path
        pytester.makefile(".ini", pytest=INI)
        (self.path / "conformance").mkdir()
        self.cluster()

    def cluster(self, *, source: str = "embedded", opening: str = "pass", can: str = "Cap") -> Project:
        (self.path / "conftest.py").write_text(CONFTEST.format(source=source, opening=opening, can=can))
        return self

    def checks(self, text: str = "", *, cornerstones: bool = True, name: str = "test_some.py") -> Project:
        (self.path / "conformance" / name).write_text(HEAD + (CORNERSTONES if cornerstones else "") + text)
        return self

    def run(self, *args: str) -> pytest.RunResult:
        return self.pytester.runpytest_inprocess(*args, no_reraise_ctrlc=True)

    @property
    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load((self.path / "results" / "report.yaml").read_text())
        return found

    def row(self, check: str) -> dict[str, Any]:
        rows: list[dict[str, Any]] = self.report["checks"]
        return next(r for r in rows if r["id"] == check)

    @property
    def left(self) -> set[str]:
        """What the run left in the project's directory."""
        return {p.name for p in self.path.iterdir()} - {"pytest.ini", "conftest.py", "conformance", "tests"} - {"__pycache__"}


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return Project(pytester)
