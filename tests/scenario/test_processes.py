"""Real processes against a cluster served by another one: SIGKILL and the restore command, SIGTERM and its roll-back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fixtures.cluster.embedded import EmbeddedUnderTest, write_private
from fixtures.kube.objects import dig, name
from fixtures.kube.resources import CONFIGMAPS, CRONJOBS, LEASES, VMIMS, VMIS
from fixtures.launcher.commands import restore as command
from tests.scenario import cases

ROOT = Path(__file__).resolve().parents[2]
PACE = 20.0
#: Real seconds until a process has come to a step, on a busy machine.
PATIENCE = 60.0

pytestmark = pytest.mark.slow


@pytest.fixture
def served(tmp_path: Path) -> Iterator[EmbeddedUnderTest]:
    cluster = cases.start()
    write_private(tmp_path / "kubeconfig", cluster.world.kubeconfig("admin"))
    cluster.world.clock.run_scaled(PACE)
    yield cluster
    cluster.world.clock.stop_scaled()
    cluster.close()


def play(tmp_path: Path) -> subprocess.Popen[str]:
    args = [sys.executable, str(ROOT / "tests" / "scenario" / "player.py"), str(tmp_path / "kubeconfig"), str(tmp_path / "out")]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(args, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def stopped(cluster: EmbeddedUnderTest) -> bool:
    return any(dig(c, "spec", "suspend") for c in cluster.world.store.list(CRONJOBS, cases.NS))


def staged(cluster: EmbeddedUnderTest) -> bool:
    return any(name(v) == "vm-1" and dig(v, "status", "phase") for v in cluster.world.store.list(VMIS))


def written(cluster: EmbeddedUnderTest) -> bool:
    maps = cluster.world.store.list(CONFIGMAPS, cases.NS)
    return any("rebalance-conformance-r9" in str(dig(m, "data", "policy.yaml")) for m in maps)


def migrating(cluster: EmbeddedUnderTest) -> bool:
    return bool(cluster.world.store.list(VMIMS))


def wait(process: subprocess.Popen[str], cluster: EmbeddedUnderTest, step: Callable[[EmbeddedUnderTest], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not step(cluster):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end, f"{step.__name__} was not reached"
        time.sleep(0.01)


@pytest.mark.parametrize("step", [stopped, staged, written, migrating])
def test_a_killed_process_is_undone_by_the_restore_command(
    served: EmbeddedUnderTest,
    tmp_path: Path,
    step: Callable[[EmbeddedUnderTest], bool],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = cases.footprint(served)
    process = play(tmp_path)
    wait(process, served, step)
    process.kill()
    process.communicate()
    assert cases.footprint(served) != before
    monkeypatch.chdir(tmp_path)
    options = [f"--cluster-kubeconfig={tmp_path}/kubeconfig", "--report-dir=out"]
    assert command.main(options) == 0, capsys.readouterr()
    assert "everything is as before" in capsys.readouterr().out
    assert cases.footprint(served) == before
    assert command.main(options) == 0
    assert capsys.readouterr().out == "nothing is left to restore\n"


def test_a_terminated_process_rolls_back_by_itself(served: EmbeddedUnderTest, tmp_path: Path) -> None:
    before = cases.footprint(served)
    process = play(tmp_path)
    wait(process, served, migrating)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=PATIENCE)
    assert "KeyboardInterrupt: SIGTERM" in output
    assert not served.world.store.list(LEASES, cases.NS)
    assert cases.footprint(served) == before, output
