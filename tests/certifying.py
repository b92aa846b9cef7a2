"""Runs the suite as its users do, in a process of its own, and reads the certificate it leaves."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Certified:
    """``outcomes``: check id → outcome."""

    status: int
    output: str
    certificate: dict[str, Any]

    @property
    def outcomes(self) -> dict[str, str]:
        return {c["id"]: c["outcome"] for c in self.certificate["checks"]}

    def those(self, *outcomes: str) -> set[str]:
        return {check for check, outcome in self.outcomes.items() if outcome in outcomes}

    def reason(self, check: str) -> str:
        return next(str(c.get("reason", "")) for c in self.certificate["checks"] if c["id"] == check)


#: Plugins of the tests' own environment: a user has none of them, and hypothesis alone takes a fifth of a run's time.
_NOT_THE_USERS = ("-p", "no:hypothesispytest", "-p", "no:xdist")


def command(report_dir: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *_NOT_THE_USERS, f"--report-dir={report_dir}", *options]


def certify(report_dir: Path, *options: str) -> Certified:
    done = _run(command(report_dir, *options))
    path = report_dir / "report.yaml"
    found = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {"checks": []}
    return Certified(done.returncode, done.stdout + done.stderr, found)


class Runs:
    """Whole runs by name, as many at a time as there are processors; ``options`` of a name. A context manager."""

    def __init__(self, folder: Path, options: Callable[[str], Iterable[str]]) -> None:
        self._pool, self._folder, self._options = ThreadPoolExecutor(os.cpu_count() or 1), folder, options
        self._started: dict[str, Future[Certified]] = {}

    def __enter__(self) -> Runs:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def folder(self, name: str) -> Path:
        return self._folder / name

    def start_selected(self, request: pytest.FixtureRequest, parameter: str) -> None:
        """Start the runs that the selected tests of the requesting module name by that parameter."""
        for item in request.session.items:
            given = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
            if item.path == request.path and parameter in given:
                self.start(given[parameter])

    def start(self, name: str) -> Future[Certified]:
        if name not in self._started:
            self._started[name] = self._pool.submit(certify, self.folder(name), *self._options(name))
        return self._started[name]

    def __getitem__(self, name: str) -> Certified:
        """Started now if it was not; waits for its end."""
        return self.start(name).result()


def _run(words: list[str]) -> subprocess.CompletedProcess[str]:
    """EFAULT from exec means that the kernel could not read the caller's memory and started nothing (seen once in many thousand
    starts, on a nested virtual machine): nothing has run yet, so that asking again hides no outcome.
    """
    for _ in range(3):
        try:
            return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
        except OSError as error:
            if error.errno != errno.EFAULT:
                raise
    raise RuntimeError(f"the kernel would not start {words[0]}")
