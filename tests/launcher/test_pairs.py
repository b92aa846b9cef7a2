"""The version pairs of ``tox -e matrix``."""

from __future__ import annotations

import json
import subprocess

import pytest

from fixtures import versions
from fixtures.launcher import pairs


def test_there_are_enough_pairs_and_each_is_one_that_the_tables_know():
    assert len(set(pairs.PAIRS)) >= 12
    for pair in pairs.PAIRS:
        assert not versions.kubevirt(pair.kubevirt).assumed
        assert not versions.descheduler(pair.descheduler).assumed
        shipped = versions.Version(versions.hco(pair.hco).kubevirt)
        assert shipped.minor == versions.Version(pair.kubevirt).minor


def test_both_sides_of_every_change_that_a_certificate_shows_are_among_them():
    facts = [versions.kubevirt(k) for k, _ in pairs.KUBEVIRT]
    for fact in ("eviction_in_progress_value", "eviction_source", "priority_from_source"):
        assert len({getattr(f, fact) for f in facts}) == 2


def test_a_pair_without_a_certificate_is_told_and_fails(tmp_path, monkeypatch, capsys):
    done = subprocess.CompletedProcess([], 3, "", "it broke")
    monkeypatch.setattr(pairs.subprocess, "run", lambda *a, **k: done)
    assert pairs.main(["-o", str(tmp_path), "--first", "1"]) == 1
    assert "no certificate, status 3: it broke" in capsys.readouterr().out


@pytest.mark.slow
def test_the_first_pair_agrees_with_the_tables(tmp_path, capsys):
    assert pairs.main(["-o", str(tmp_path), "--first", "1"]) == 0
    assert "1 combinations, all as the version tables say" in capsys.readouterr().out
    (row,) = json.loads((tmp_path / "matrix.json").read_text())["rows"]
    assert row["observed"] == {"eviction-in-progress": "kubevirt", "eviction-source": "none", "priority": "none"}
    assert (tmp_path / row["report"]).is_file()
