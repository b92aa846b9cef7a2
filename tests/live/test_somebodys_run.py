"""A policy that another run of the suite has put there for a while is not judged as its owner's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fixtures.cluster.api import Edit, Verb
from fixtures.kube.resources import CONFIGMAPS
from fixtures.scenario.manifests import MANAGED_BY
from tests.live.conftest import Live

pytestmark = pytest.mark.slow

START = {
    "kind": "start",
    "at": 0.0,
    "run": "f734ac",
    "who": "sre@laptop",
    "namespace": "rebalance-conformance-f734ac",
    "plugin_namespace": "descheduler",
}


def test_a_policy_beside_a_journal_is_inconclusive_and_says_what_to_do(live: Live, tmp_path: Path) -> None:
    journal = {"journal.jsonl": json.dumps(START) + "\n"}
    metadata = {"name": "rebalance-conformance-journal-f734ac", "namespace": "descheduler", "labels": dict(MANAGED_BY)}
    made = Edit(Verb.CREATE, CONFIGMAPS, metadata["name"], "descheduler", body={"metadata": metadata, "data": journal}, why="left")
    live.cluster.change(made)
    found = live.certify(tmp_path / "beside", "--check=POL")
    live.cluster.change(Edit(Verb.DELETE, CONFIGMAPS, metadata["name"], "descheduler", why="restored"))

    assert {"POL-2", "POL-3", "POL-6"} <= found.those("inconclusive")
    assert found.those("passed", "failed") == {"POL-1"}
    reason = found.reason("POL-2")
    assert "rebalance-conformance-journal-f734ac says that run f734ac of sre@laptop has not put back" in reason
    assert "rebalance-conformance restore" in reason
    assert found.certificate["verdict"]["word"] == "unknown"
