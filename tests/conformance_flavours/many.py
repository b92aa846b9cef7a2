"""Several runs of the suite in one process, a job a line of standard input: a start costs more than a read-only certification.

A job is ``{"name": …, "words": […]}``; words that begin with ``explain`` are the launcher's, any others pytest's. The answer is one
line a job: ``{"name": …, "status": …, "output": …}``.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys

import pytest

from fixtures.launcher.__main__ import main as launch


def run(words: list[str]) -> tuple[int, str]:
    """Status and what was printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        explains = words[0] == "explain"
        status = launch(words) if explains else int(pytest.main(["conformance", "-p", "no:cacheprovider", *words]))
    return status, out.getvalue()


if __name__ == "__main__":
    for line in sys.stdin:
        job = json.loads(line)
        status, output = run(job["words"])
        print(json.dumps({"name": job["name"], "status": status, "output": output}), flush=True)
