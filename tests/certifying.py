"""Runs the suite as its users do, in a process of its own, and reads the certificate it leaves."""

from __future__ import annotations

import errno
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def command(report_dir: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--report-dir={report_dir}", *options]


def certify(report_dir: Path, *options: str) -> Certified:
    done = _run(command(report_dir, *options))
    path = report_dir / "report.yaml"
    found = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {"checks": []}
    return Certified(done.returncode, done.stdout + done.stderr, found)


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
