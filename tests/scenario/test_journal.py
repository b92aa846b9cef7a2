"""The journal is on disk before anything changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fixtures.cluster.api import Edit, Verb
from fixtures.kube.resources import CONFIGMAPS
from fixtures.scenario.journal import RunJournal

EDIT = Edit(Verb.MERGE, CONFIGMAPS, "descheduler", "descheduler", body={"data": {}}, why="bounded policy", shared=True)


def test_an_entry_holds_what_is_needed_to_undo_it(tmp_path: Path) -> None:
    told: list[str] = []
    journal = RunJournal(tmp_path / "deep" / "journal.jsonl", "r1", lambda: 12.5, told.append)
    current = {
        "kind": "ConfigMap",
        "metadata": {"name": "descheduler", "uid": "u", "managedFields": []},
        "data": {"a": "b"},
        "status": {},
    }
    journal.before(EDIT, current)
    (line,) = (tmp_path / "deep" / "journal.jsonl").read_text().splitlines()
    entry = json.loads(line)
    assert entry["before"] == {"kind": "ConfigMap", "metadata": {"name": "descheduler", "uid": "u"}, "data": {"a": "b"}}
    assert (entry["n"], entry["at"], entry["verb"], entry["why"]) == (0, 12.5, "merge-patch", "bounded policy")
    assert told == [line + "\n"]


def test_a_journal_that_cannot_be_written_forbids_the_edit(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    journal = RunJournal(tmp_path / "file" / "journal.jsonl", "r1", lambda: 0.0)
    with pytest.raises(OSError, match="file"):
        journal.before(EDIT, None)
