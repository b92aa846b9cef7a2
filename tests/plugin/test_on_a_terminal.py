"""A whole run on a pseudo terminal: waits move a line, and nothing of it is left."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WAITING = """
@check("HCO-1", impact=RO, source="s")
def test_x(cluster):
    "It waits."
    import time
    print("noise of the check")
    for second in range(4):
        cluster.progress("the migration to succeed", second, 600)
        time.sleep(0.12)
"""


@pytest.mark.slow
def test_a_wait_moves_a_line_on_a_terminal(project):
    project.checks(WAITING)
    master, slave = pty.openpty()
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "90", "LINES": "40"}
    command = [sys.executable, "-m", "pytest"]
    with subprocess.Popen(command, cwd=project.path, env=environment, stdin=slave, stdout=slave, stderr=slave) as process:
        os.close(slave)
        text = read_all(master)
    assert process.returncode == 0
    assert "the migration to succeed  3 s of at most 600 s" in text
    assert text.count("the migration to succeed") >= 3
    assert "noise of the check" not in text
    shown = [line.rpartition("\x1b[2K")[2] for line in text.split("\n")]
    assert not any("the migration" in line for line in shown)
    assert any("conformant (simulated)" in line for line in shown)


def read_all(master: int) -> str:
    """Everything until the other side closes (Linux says so by EIO)."""
    parts = []
    try:
        while part := os.read(master, 65536):
            parts.append(part)
    except OSError:
        pass
    finally:
        os.close(master)
    return b"".join(parts).decode()
