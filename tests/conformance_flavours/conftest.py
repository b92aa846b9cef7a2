"""Runs of the suite against many embedded clusters, as few processes as there are processors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
#: Seconds for all jobs of one process.
LIMIT = 240.0


@dataclass(frozen=True)
class Ran:
    """``certificate`` is empty where the job wrote none."""

    status: int
    output: str
    certificate: Mapping[str, Any]
    folder: Path

    @property
    def verdict(self) -> str:
        return str(self.certificate["verdict"]["text"])

    def those(self, *outcomes: str) -> dict[str, str]:
        """Check id → reason."""
        return {c["id"]: str(c.get("reason", "")) for c in self.certificate["checks"] if c["outcome"] in outcomes}

    @property
    def undecided(self) -> dict[str, str]:
        return self.those("failed", "inconclusive", "skipped")


#: Name → the job's words; a report directory is added to those of pytest.
Jobs = Mapping[str, Sequence[str]]
RunAll = Callable[[Jobs], dict[str, Ran]]


@pytest.fixture(scope="module")
def run_all(tmp_path_factory: pytest.TempPathFactory) -> RunAll:
    base = tmp_path_factory.mktemp("many")
    return lambda jobs: _run_all(jobs, base)


def _run_all(jobs: Jobs, base: Path) -> dict[str, Ran]:
    names, found = list(jobs), dict[str, Ran]()
    share = max(1, os.cpu_count() or 1)
    with ThreadPoolExecutor(share) as pool:
        for part in pool.map(lambda n: _process({name: jobs[name] for name in n}, base), [names[i::share] for i in range(share)]):
            found |= part
    return {name: found[name] for name in names}


def _process(jobs: Jobs, base: Path) -> dict[str, Ran]:
    lines = [{"name": n, "words": [*w] if w[0] == "explain" else [*w, f"--report-dir={_folder(base, n)}"]} for n, w in jobs.items()]
    done = subprocess.run(
        [sys.executable, "-m", "tests.conformance_flavours.many"],
        cwd=ROOT,
        input="\n".join(json.dumps(line) for line in lines),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return {a["name"]: _ran(a, _folder(base, a["name"])) for a in answers}


def _folder(base: Path, name: str) -> Path:
    return base / name.replace(" ", "-").replace("/", "-")


def _ran(answer: Mapping[str, Any], folder: Path) -> Ran:
    path = folder / "report.yaml"
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = yaml.load(path.read_text(encoding="utf-8"), Loader=loader) if path.exists() else {}  # noqa: S506 (a safe loader)
    return Ran(answer["status"], answer["output"], found, folder)
