"""The whole BGE area with every engine: it passes, or says for which of the catalogue's reasons it was not run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.certifying import ROOT, Certified, certify

pytestmark = pytest.mark.slow

ALL = {f"BGE-{n}" for n in range(1, 14)}
ENGINE = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from fixtures.engine.reference.process import main; sys.exit(main())"


#: Looks like a descheduler from outside.
HELP = "case $1 in --help) echo '--policy-config-file string'; exit 0;; esac"


def script(path: Path, body: str, *, interpreter: str = "/bin/sh") -> str:
    path.write_text(f"#!{interpreter}\n{body}\n")
    path.chmod(0o755)
    return str(path)


def bge(found: Certified) -> dict[str, str]:
    return {check: outcome for check, outcome in found.outcomes.items() if check in ALL}


def passed_but(**others: str) -> dict[str, str]:
    return dict.fromkeys(ALL, "passed") | {check.replace("_", "-"): outcome for check, outcome in others.items()}


def test_the_reference_engine_passes_all(tmp_path: Path) -> None:
    found = certify(tmp_path, "--check=BGE")
    assert bge(found) == passed_but(), found.output


def test_rebalance_engine_passes_as_an_executable(tmp_path: Path) -> None:
    engine = script(tmp_path / "rebalance-engine", ENGINE, interpreter=sys.executable)
    found = certify(tmp_path / "report", "--check=BGE", "--engine=binary", f"--engine-binary={engine}")
    assert bge(found) == passed_but(BGE_12="not-applicable"), found.output
    assert "the engine under test is binary" in found.reason("BGE-12")


@pytest.mark.parametrize("how", ["--embedded=workload=cronjob", "--embedded=workload=deployment", "--engine-wait"])
def test_what_is_installed_passes_and_is_put_back(tmp_path: Path, how: str) -> None:
    found = certify(tmp_path, "--check=BGE", "--engine=installed", how)
    assert bge(found) == passed_but(BGE_4="not-selected", BGE_12="not-applicable"), found.output
    assert found.reason("BGE-4") == "it is never run with --engine=installed"
    assert not found.certificate.get("notRestored")


def test_with_the_installed_engine_they_are_as_disruptive_as_the_edits_they_make(tmp_path: Path) -> None:
    found = certify(tmp_path, "--check=BGE", "--engine=installed", "--allow=namespaced")
    assert {o for c, o in bge(found).items() if c != "BGE-12"} == {"not-selected"}, found.output
    assert "its impact is disruptive with --engine=installed, whose policy it edits" in found.reason("BGE-1")
    assert found.outcomes["BGE-12"] == "not-applicable"
    assert not list(tmp_path.glob("journal*"))  # nothing was stopped or edited, not even for a moment


@pytest.mark.parametrize(
    "versions",
    ["platform=upstream", "kubevirt=1.9.0", "kubevirt=1.6.1,descheduler=0.34.0", "kubevirt=1.6.0,descheduler=0.33.0"],
)
def test_other_combinations_pass_too(tmp_path: Path, versions: str) -> None:
    found = certify(tmp_path, "--check=BGE", f"--embedded={versions}")
    assert bge(found) == passed_but(), found.output


# ---- executables that disappoint


def with_binary(tmp_path: Path, path: str) -> Certified:
    return certify(tmp_path / "report", "--check=BGE-1,BGE-2", "--engine=binary", f"--engine-binary={path}")


def test_no_executable_is_bad_usage(tmp_path: Path) -> None:
    found = certify(tmp_path / "report", "--check=BGE-1", "--engine=binary")
    assert (found.status, "--engine=binary: needs --engine-binary FILE" in found.output) == (4, True)


def test_another_architecture_is_bad_input(tmp_path: Path) -> None:
    path = tmp_path / "engine"
    path.write_bytes(b"\x7fELF\x02\x01\x01\x00" + b"\x00" * 8 + b"\x02\x00\xf3\x00" + b"\x00" * 200)
    path.chmod(0o755)
    found = with_binary(tmp_path, str(path))
    assert found.status == 4
    assert "another architecture" in found.output


def test_a_program_that_is_no_descheduler_is_bad_input(tmp_path: Path) -> None:
    found = with_binary(tmp_path, script(tmp_path / "engine", "echo hello"))
    assert found.status == 4
    assert "engine --help does not tell of --policy-config-file: is this a descheduler? It says: hello" in found.output


def test_one_without_the_gate_fails(tmp_path: Path) -> None:
    line = 'E0102 15:04:05.000000       1 run.go:72] "command failed" err="unrecognized feature gate: EvictionsInBackground"'
    found = with_binary(tmp_path, script(tmp_path / "engine", f"{HELP}\ncat <<'END'\n{line}\nEND\nexit 1"))
    assert bge(found)["BGE-1"] == "failed", found.output
    assert "has no feature gate EvictionsInBackground" in found.reason("BGE-1")
    assert bge(found)["BGE-2"] == "inconclusive"


@pytest.mark.parametrize(
    ("body", "says"),
    [("exit 0", "printed nothing: is this a descheduler?"), ("echo one word; kill -SEGV $$", "was killed by signal SIGSEGV")],
)
def test_one_that_says_nothing_or_dies_is_no_evidence(tmp_path: Path, body: str, says: str) -> None:
    found = with_binary(tmp_path, script(tmp_path / "engine", f"{HELP}\n{body}"))
    assert bge(found)["BGE-1"] == "inconclusive", found.output
    assert says in found.reason("BGE-1")
