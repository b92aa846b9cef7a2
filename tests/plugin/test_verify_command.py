"""Starting from any directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.launcher.__main__ import main

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_run_works_from_any_directory_and_paths_after_a_space_do_not_move_the_root(tmp_path):
    (tmp_path / "policy.yaml").write_text("no policy")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "fixtures.launcher", "run", "--policy", str(tmp_path / "policy.yaml")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 4
    assert "policy.yaml: holds a str where a mapping (key: value) is wanted" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["policy.yaml"]


@pytest.mark.parametrize(("argv", "status"), [(["--help"], 0), ([], 4), (["rnu"], 4), (["verify"], 4)])
def test_usage_is_told(argv, status, capsys):
    assert main(argv) == status
    out, err = capsys.readouterr()
    assert "usage: rebalance-conformance COMMAND" in (err if status else out)


def test_verify_reports_each_file(tmp_path, capsys):
    (tmp_path / "a.yaml").write_text("x: 1")
    assert main(["verify", str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")]) == 4
    assert capsys.readouterr().err.splitlines() == [
        f"{tmp_path}/a.yaml: kind: missing",
        f"{tmp_path}/b.yaml: No such file or directory",
    ]


def test_verify_names_the_verdict_of_a_good_certificate(project, capsys):
    project.checks().run()
    capsys.readouterr()
    assert main(["verify", str(project.path / "results/report.yaml")]) == 0
    assert capsys.readouterr().out.endswith("report.yaml: conformant (simulated)\n")
