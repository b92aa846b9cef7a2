"""Executables under test: a real one, and every way in which one can disappoint."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from fixtures.engine.api import EngineTrouble
from fixtures.engine.binary import BinaryEngine
from tests.engine.fakeapi import FakeApi

ROOT = Path(__file__).parents[3]
ENGINE = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from fixtures.engine.reference.process import main; sys.exit(main())"


def script(path: Path, body: str, *, interpreter: str = "/bin/sh") -> str:
    path.write_text(f"#!{interpreter}\n{body}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def rebalance_engine(tmp_path: Path) -> str:
    return script(tmp_path / "rebalance-engine", ENGINE, interpreter=sys.executable)


def test_the_reference_engine_as_an_executable(rebalance_engine: str, kubeconfig: str, api: FakeApi, policy: str) -> None:
    report = BinaryEngine(rebalance_engine, kubeconfig).cycle(policy)
    assert (report.exit_code, report.eviction_requests, report.unparsed) == (0, 3, [])
    assert report.requested == [pod for pod, _, _, _ in api.evictions]
    assert report.posts == []


def test_the_gate_can_be_left_off(rebalance_engine: str, kubeconfig: str, api: FakeApi, policy: str) -> None:
    assert BinaryEngine(rebalance_engine, kubeconfig).cycle(policy, gate=False).eviction_requests == 0
    assert len(api.evictions) == 7


def test_a_refused_policy_is_a_report(rebalance_engine: str, kubeconfig: str) -> None:
    report = BinaryEngine(rebalance_engine, kubeconfig).cycle("kind: [")
    assert report.exit_code == 1
    assert report.fatal is not None


def trouble(path: str, policy: str = "", *, gate: bool = True, limit: float = 20.0, most: int = 1 << 20) -> str:
    with pytest.raises(EngineTrouble) as caught:
        BinaryEngine(path, "/nowhere", limit, output_limit=most).cycle(policy, gate=gate)
    return str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    assert "there is no such file" in trouble(str(tmp_path / "nothing"))


def test_a_file_that_is_not_executable(tmp_path: Path) -> None:
    path = Path(script(tmp_path / "engine", "true"))
    path.chmod(0o644)
    assert "not executable" in trouble(str(path))


def test_a_directory(tmp_path: Path) -> None:
    assert "cannot be started" in trouble(str(tmp_path))


def test_a_program_for_another_architecture(tmp_path: Path) -> None:
    path = tmp_path / "engine"
    path.write_bytes(b"\x7fELF\x02\x01\x01\x00" + b"\x00" * 8 + b"\x02\x00\xf3\x00" + b"\x00" * 200)
    path.chmod(0o755)
    assert "another architecture" in trouble(str(path))


def test_a_program_that_dies_by_a_signal(tmp_path: Path) -> None:
    assert "killed by signal SIGSEGV; it said last: one word" in trouble(script(tmp_path / "e", "echo one word; kill -SEGV $$"))


def test_a_program_that_hangs_is_stopped_with_all_it_started(tmp_path: Path) -> None:
    begin = time.monotonic()
    message = trouble(script(tmp_path / "e", "echo waiting; sleep 600 & sleep 600"), limit=0.5)
    assert "did not end within 0.5 s and was stopped; it said last: waiting" in message
    assert time.monotonic() - begin < 5


def test_a_program_ends_although_what_it_started_holds_its_output_and_that_ends_with_it(tmp_path: Path) -> None:
    begin = time.monotonic()
    message = trouble(script(tmp_path / "e", f"sleep 600 & echo $! > {tmp_path}/child"), limit=30)
    assert "ended with status 0 and printed nothing" in message
    assert time.monotonic() - begin < 5
    child = Path("/proc", (tmp_path / "child").read_text().strip(), "cmdline")
    while child.exists() and child.read_bytes():  # a zombie, which only its new parent can remove, has none
        assert time.monotonic() - begin < 5


def test_a_program_that_closes_its_output_and_stays(tmp_path: Path) -> None:
    assert "closed its output" in trouble(script(tmp_path / "e", "exec >&- 2>&-; sleep 600"), limit=1.0)


@pytest.mark.parametrize("status", [0, 3])
def test_a_program_that_says_nothing(tmp_path: Path, status: int) -> None:
    assert f"ended with status {status} and printed nothing" in trouble(script(tmp_path / "e", f"exit {status}"))


def test_a_program_that_prints_without_end(tmp_path: Path) -> None:
    assert "printed more than 1048576 bytes" in trouble(script(tmp_path / "e", "yes"))


@pytest.mark.parametrize(
    "words",
    [
        'E0102 15:04:05.000000       1 run.go:72] "command failed" err="unrecognized feature gate: EvictionsInBackground"',
        "Error: unknown flag: --feature-gates",
    ],
)
def test_a_descheduler_without_the_gate(tmp_path: Path, words: str) -> None:
    path = script(tmp_path / "e", f"cat <<'END'\n{words}\nEND\nexit 1")
    assert "has no feature gate EvictionsInBackground (0.32 is the first that has)" in trouble(path)


def test_a_cluster_with_a_clock_of_its_own_is_told_of_the_time_that_passes(tmp_path: Path) -> None:
    passed: list[float] = []
    path = script(tmp_path / "e", "sleep 0.4; echo hello")
    report = BinaryEngine(path, "/nowhere", meanwhile=passed.append).cycle("")
    assert report.unparsed == ["hello"]
    assert 0.2 < sum(passed) < 5


def test_an_executable_has_no_installed_policy() -> None:
    with pytest.raises(EngineTrouble, match="no policy"):
        BinaryEngine("/bin/true", "/nowhere").cycle(None)
