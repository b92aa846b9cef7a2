"""The wheel: complete and small, one package at the top level, works from anywhere beside PyPI's ``fixtures``.

Dependencies are this environment's. Only PyPI's ``fixtures`` is fetched; tests that want it are skipped where that cannot be.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PACKAGE = "vm_rebalance_conformance"
pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    words = [str(c) for c in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0 or not check, f"{words}: {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with sdist and wheel; the wheel is built from the sdist, which proves that complete."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``bin`` of an environment with the wheel and PyPI's ``fixtures``."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin/python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).stdout.strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--disable-pip-version-check")
    run(*pip, wheel, cwd=folder)
    fetched = run(*pip, "--retries=0", "--timeout=20", "--ignore-installed", "fixtures", cwd=folder, check=False)
    if fetched.returncode:
        pytest.skip(f"PyPI's fixtures cannot be fetched: {fetched.stderr.strip().splitlines()[-1]}")
    assert (site / "fixtures/__init__.py").is_file()
    return folder / "bin"


def files_of(folder: str, *, suffixes: tuple[str, ...] = ()) -> set[str]:
    found = (p for p in (ROOT / folder).rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return {p.relative_to(ROOT).as_posix() for p in found if not suffixes or p.suffix in suffixes}


def test_the_wheel_holds_one_package_and_in_it_the_whole_tree(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {n.split("/")[0].removesuffix(".dist-info") for n in names} == {PACKAGE, wheel.name.split("-py3")[0]}
    tree = files_of("conformance") | files_of("fixtures") | files_of("vm-manifests")
    missing = {f"{PACKAGE}/suite/{f}" for f in tree | {"conftest.py", "pyproject.toml", "docs/report.schema.json"}} - names
    assert {m for m in missing if "/launcher/package/" not in m} == set()
    assert {f"{PACKAGE}/__init__.py", f"{PACKAGE}/__main__.py"} <= names
    assert not [n for n in names if n.endswith(".pyc") or "/tests/" in n]


def test_wheel_and_sdist_are_small_and_the_sdist_is_complete(built: Path, wheel: Path) -> None:
    assert wheel.stat().st_size < 2_000_000
    (sdist,) = built.glob("*.tar.gz")
    assert sdist.stat().st_size < 3_000_000
    with tarfile.open(sdist) as archive:
        names = {n.partition("/")[2] for n in archive.getnames()}
    wanted = {
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
        "NOTICE",
        "tox.ini",
        "pyproject.toml",
        "docs/report.schema.json",
        "docs/checks.md",
    }
    assert wanted | files_of("tests", suffixes=(".py",)) <= names


def test_an_installation_certifies_from_another_directory_beside_pypis_fixtures(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "fixtures").mkdir()
    (tmp_path / "conformance.py").write_text("raise SystemExit('a module of the working directory was imported')")
    done = run(installed / "rebalance-conformance", "run", "--report-dir=out", "--check=POL,REN,INT", cwd=tmp_path)
    assert "conformant (simulated)" in done.stdout
    report = tmp_path / "out/report.yaml"
    found = yaml.safe_load(report.read_text(encoding="utf-8"))
    assert {c["outcome"] for c in found["checks"] if c["id"] in ("POL-2", "REN-2", "INT-1")} == {"passed"}
    assert (tmp_path / "out/report.html").is_file()
    assert "conformant" in run(installed / "rebalance-conformance", "verify", report, cwd=tmp_path).stdout
    assert "conformant" in run(installed / "python", "-m", PACKAGE, "verify", report, cwd=tmp_path).stdout


def test_only_the_launcher_is_importable_and_pypis_fixtures_stays_what_it_is(installed: Path, tmp_path: Path) -> None:
    script = f"import {PACKAGE}, fixtures; print(hasattr(fixtures, 'TempDir'), hasattr(fixtures, 'checks'))"
    assert run(installed / "python", "-c", script, cwd=tmp_path).stdout.split() == ["True", "False"]
    assert run(installed / "python", "-c", "import conformance", cwd=tmp_path, check=False).returncode != 0


def test_the_engine_is_a_command_of_its_own(installed: Path, tmp_path: Path) -> None:
    assert "--policy-config-file" in run(installed / "rebalance-engine", "--help", cwd=tmp_path).stderr
    assert run(installed / "rebalance-conformance", "nonsense", cwd=tmp_path, check=False).returncode == 4
    assert '"id": "MIG-3"' in run(installed / "rebalance-conformance", "checks", "MIG-3", "--json", cwd=tmp_path).stdout
