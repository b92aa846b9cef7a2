"""Secrets planted everywhere in a cluster reach no artifact and no terminal, whatever fails meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.kube.redact import redact
from tests.report import planting

ROOT = Path(__file__).parents[2]
DEFECTS = "never-migratable,launcher-annotation-missing,interceptor-not-registered,two-consumers,verbosity-too-low"


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [(), (f"--defect={DEFECTS}", "-v"), ("--defect=policy-not-yaml", "--tb=long", "--check=POL,REN,VER")]
)
def test_no_planted_secret_reaches_an_artifact_or_the_terminal(options: tuple[str, ...], tmp_path: Path) -> None:
    listed = tmp_path / "planted.json"
    command = [sys.executable, "-m", "pytest", "-p", "tests.report.planting", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, f"--report-dir={tmp_path / 'out'}", *options],
        cwd=ROOT,
        env=os.environ | {"PLANTED_LIST": str(listed), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode in (0, 1, 5, 6), done.stdout + done.stderr
    found = [p for p in (tmp_path / "out").rglob("*") if p.is_file()]
    journals = [p for p in found if p.suffix == ".jsonl"]  # no artifacts: they hold what is to be restored, as it was
    assert {p.stat().st_mode & 0o777 for p in journals} <= {0o600}
    files = {str(p.relative_to(tmp_path / "out")): p.read_text("utf-8") for p in found if p not in journals}
    assert {"report.yaml", "report.html", "summary.md", "junit.xml"} <= set(files)
    everything = files | {"the terminal": done.stdout + done.stderr}
    secrets = json.loads(listed.read_text())
    assert len(secrets) > len(planting.VALUES), "the cluster's own credentials are not among them"
    assert {(where, s[:40]) for where, text in everything.items() for s in secrets if s in text} == set()


@pytest.mark.parametrize("value", [planting.ANNOTATIONS, {"spec": {"env": planting.ENVIRONMENT}}, planting.KUBECONFIG])
def test_what_is_planted_is_recognised(value: object) -> None:
    told = json.dumps(redact(value))
    assert [s for s in planting.VALUES if s in told] == []


@pytest.mark.parametrize("shown", [repr, json.dumps, lambda v: json.dumps(json.dumps(v))])
def test_an_environment_variable_is_recognised_inside_a_text(shown) -> None:
    told = redact(f"where 1 = Workload(object={shown(planting.ENVIRONMENT)})")
    assert planting.PASSWORD not in told
    assert planting.PROXY_PASSWORD not in told
    assert "DB_PASSWORD" in told


def test_cloud_init_is_not_shown_however_it_is_written() -> None:
    vm = {"spec": {"template": {"spec": {}}}}
    planting._cloud_init(vm)
    told = json.dumps(redact(vm))
    assert [s for s in planting.VALUES if s in told] == []
