"""Commands: found by name, told in the usage, started from any directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.launcher import commands
from fixtures.launcher.__main__ import main
from fixtures.report import catalogue

ROOT = Path(__file__).parents[2]


def test_every_command_says_in_a_line_what_it_does(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for name in commands.names():
        assert f"\n  {name} " in out
        assert "\n" not in commands.load(name).SAYS


@pytest.mark.parametrize("argv", [[], ["rnu"], ["commands"], ["__init__"]])
def test_what_is_no_command_is_bad_usage(argv, capsys):
    assert main(argv) == 4
    assert "usage: rebalance-conformance COMMAND" in capsys.readouterr().err


@pytest.mark.slow
def test_run_works_from_any_directory_and_paths_after_a_space_do_not_move_the_root(tmp_path):
    (tmp_path / "policy.yaml").write_text("no policy")
    (tmp_path / "fixtures.py").write_text("raise SystemExit('a module of the working directory was imported')")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-P", "-m", "fixtures.launcher", "run", "--policy", str(tmp_path / "policy.yaml")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 4
    assert "policy.yaml: holds a str where a mapping (key: value) is wanted" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fixtures.py", "policy.yaml"]


def listed(capsys, *args):
    assert main(["checks", *args, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_catalogue_is_listed_without_a_cluster(capsys):
    found = listed(capsys)
    assert [e["id"] for e in found] == [e.spec.id for e in catalogue.load()]
    assert all(e["says"] and e["source"] for e in found)
    assert main(["checks"]) == 0
    out = capsys.readouterr().out
    assert f"what it asserts ({len(found)} checks)" in out
    assert all(f"\n{e['id']} " in out for e in found)


def test_the_catalogue_is_filtered_by_id_area_level_and_impact(capsys):
    assert [e["id"] for e in listed(capsys, "mig-3", "EVR")] == ["EVR-1", "MIG-3"]
    assert {e["impact"] for e in listed(capsys, "--impact=dry-run")} == {"dry-run"}
    assert [e["id"] for e in listed(capsys, "POL", "--level=required")] == ["POL-1", "POL-2", "POL-3", "POL-4", "POL-5", "POL-7"]
    rule = next(e["level"] for e in listed(capsys, "POL-4"))
    assert rule == "required on ACP, else recommended"


def test_a_check_that_does_not_exist_is_not_listed(capsys):
    assert main(["checks", "POL-99"]) == 4
    assert "checks: no check 'POL-99' (did you mean POL-9?); known: POL-1, " in capsys.readouterr().err


def test_verify_reports_each_file(tmp_path, capsys):
    (tmp_path / "a.yaml").write_text("x: 1")
    assert main(["verify", str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")]) == 4
    assert capsys.readouterr().err.splitlines() == [
        f"{tmp_path}/a.yaml: kind: missing",
        f"{tmp_path}/b.yaml: No such file or directory",
    ]


def test_verify_without_a_file_is_bad_usage(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["verify"])
    assert ended.value.code == 4
    assert "required: certificate" in capsys.readouterr().err
