"""An executable as the process of a simulated container, and the engine that runs what containers run."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from fixtures.embedded.ports import ContainerRun
from fixtures.engine import binary
from fixtures.engine.api import EngineTrouble, NoGate
from fixtures.engine.binary import in_container, usable
from fixtures.engine.contained import ContainedEngine
from tests.engine.adapters.test_binary import ENGINE, script
from tests.engine.fakeapi import FakeApi

EPOCH = 1_800_000_000.0


def container(log: bytearray, *argv: str, files: dict[str, str] | None = None, kubeconfig: Any = None) -> ContainerRun:
    return ContainerRun(
        argv=("/bin/descheduler", *argv),
        env={"GREETING": "hello"},
        files=files or {},
        kubeconfig=kubeconfig or {"kind": "Config"},
        pod={},
        write=log.extend,
        now=lambda: EPOCH,
    )


def ended(process: Generator[float, None, int]) -> tuple[int, float]:
    """Exit status and the seconds asked for."""
    passed = 0.0
    while True:
        try:
            passed += next(process)
        except StopIteration as end:
            return int(end.value), passed


def test_arguments_mounts_and_access_reach_the_process(tmp_path: Path) -> None:
    body = 'echo "$GREETING"; for a in "$@"; do echo "$a"; done; cat "${1#--policy-config-file=}"; cat kubeconfig'
    log = bytearray()
    run = container(log, "--policy-config-file=/policy-dir/policy.yaml", "--v=3", files={"/policy-dir/policy.yaml": "the policy\n"})
    assert ended(in_container(Path(script(tmp_path / "e", body)))(run))[0] == 0
    lines = log.decode().splitlines()
    assert lines[:3] == ["hello", "--policy-config-file=/policy-dir/policy.yaml", "--v=3"]
    assert {"the policy", "kind: Config", "--secure-port=0"} <= set(lines)


@pytest.mark.parametrize("argv", [("--policy-config-file=/etc/hostname",), ("--policy-config-file", "/etc/hostname")])
def test_a_policy_that_is_not_mounted_is_not_taken_from_this_machine(tmp_path: Path, argv: tuple[str, ...]) -> None:
    body = 'for a in "$@"; do p="${a#--policy-config-file=}"; case "$p" in */etc/hostname) test -e "$p" && echo found;; esac; done'
    log = bytearray()
    ended(in_container(Path(script(tmp_path / "e", f"{body}; echo end")))(container(log, *argv)))
    assert log == b"end\n"


def test_time_passes_as_on_the_wall_and_the_log_has_the_clusters_time(tmp_path: Path) -> None:
    text = "I0102 15:04:05.000000       1 a.go:1] started"
    line = json.dumps({"ts": 1.5, "msg": "x"}).replace(" ", "")
    log = bytearray()
    path = script(tmp_path / "e", f"echo '{text}'; echo '{line}'; sleep 0.3; printf 'no newline'")
    code, passed = ended(in_container(Path(path))(container(log)))
    assert code == 0
    assert 0.2 < passed < 5
    assert log.decode().splitlines() == [
        "I0115 08:00:00.000000       1 a.go:1] started",
        '{"ts":1800000000000.000,"msg":"x"}',
        "no newline",
    ]


def test_deaths_are_exit_statuses_and_a_line_in_the_log(tmp_path: Path) -> None:
    log = bytearray()
    code, _ = ended(in_container(Path(script(tmp_path / "e", "echo last; kill -SEGV $$")))(container(log)))
    assert (code, b"killed by signal SIGSEGV; it said last: last" in log) == (139, True)


def test_one_that_hangs_is_killed_unless_it_is_to_stay(tmp_path: Path) -> None:
    path, log = Path(script(tmp_path / "e", "sleep 600")), bytearray()
    code, _ = ended(in_container(path, time_limit=0.2)(container(log)))
    assert (code, b"did not end within 0.2 s" in log) == (137, True)
    staying = in_container(path, time_limit=0.2)(container(log, "--descheduling-interval=5m"))
    begin = time.monotonic()
    while time.monotonic() - begin < 0.5:
        next(staying)
    staying.close()


def test_once_it_has_hung_it_gets_less_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary, "AFTER_A_HANG", 0.2)
    run = in_container(Path(script(tmp_path / "e", "sleep 600")), time_limit=1.0)
    first, second = (ended(run(container(bytearray())))[1] for _ in range(2))
    assert first > 0.9 > second


def test_one_that_cannot_be_started_is_said(tmp_path: Path) -> None:
    path = tmp_path / "e"
    path.write_bytes(b"\x7fELF" + b"\x00" * 300)
    path.chmod(0o755)
    log = bytearray()
    assert ended(in_container(path)(container(log)))[0] == 128
    assert b"another architecture" in log
    with pytest.raises(EngineTrouble, match="another architecture"):
        usable(path)


# ---- the engine that runs what containers run


def contained(run: Any, kubeconfig: Any = None, *, within: float = 60.0) -> ContainedEngine:
    clock = [EPOCH]

    def elapse(seconds: float) -> None:
        clock[0] += seconds

    return ContainedEngine("binary", run, kubeconfig or {}, now=lambda: clock[0], elapse=elapse, who="engine", within=within)


def test_a_cycle_of_rebalance_engine(tmp_path: Path, api: FakeApi, policy: str) -> None:
    path = Path(script(tmp_path / "rebalance-engine", ENGINE, interpreter=sys.executable))
    report = contained(in_container(path), api.kubeconfig()).cycle(policy)
    assert (report.exit_code, report.eviction_requests, report.unparsed) == (0, 3, [])
    assert report.requested == [pod for pod, _, _, _ in api.evictions]


def test_troubles_are_told_apart(tmp_path: Path) -> None:
    def saying(body: str) -> Any:
        return in_container(Path(script(tmp_path / "e", body)), time_limit=1.0)

    with pytest.raises(EngineTrouble, match="printed nothing"):
        contained(saying("exit 3")).cycle("")
    with pytest.raises(EngineTrouble, match=r"engine: .*killed by signal SIGSEGV"):
        contained(saying("kill -SEGV $$")).cycle("")
    with pytest.raises(NoGate, match="has no feature gate"):
        contained(saying("echo 'Error: unknown flag: --feature-gates'; exit 1")).cycle("")
    with pytest.raises(EngineTrouble, match="given no policy"):
        contained(saying("true")).cycle(None)


def test_a_process_without_end_is_given_up() -> None:
    def forever(run: ContainerRun) -> Generator[float, None, int]:
        while True:
            yield 10.0

    with pytest.raises(EngineTrouble, match="did not end within 60 s of the cluster's clock"):
        contained(forever).cycle("")
