"""Running VMs: effective strategy, what an eviction would do to each, and names that stay readable."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.cluster.discover.looking import look
from fixtures.cluster.discover.machines import Machine, machines, named, virt_nodes, virt_workers
from fixtures.kube.resources import NODES, Obj
from tests.cluster.paper import Paper


def vmi(name: str = "vm", strategy: str | None = None, *, migratable: bool | None = True, phase: str = "Running") -> Obj:
    conditions = [] if migratable is None else [{"type": "LiveMigratable", "status": str(migratable), "reason": "Disks"}]
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": name, "namespace": "a"},
        "spec": {} if strategy is None else {"evictionStrategy": strategy},
        "status": {"phase": phase, "conditions": conditions},
    }


@pytest.mark.parametrize(
    ("strategy", "migratable", "mortal"),
    [
        ("None", True, True),
        ("LiveMigrate", False, False),
        ("LiveMigrate", True, False),
        ("LiveMigrateIfPossible", True, False),
        ("LiveMigrateIfPossible", False, True),
        ("LiveMigrateIfPossible", None, True),
        ("External", False, False),
        ("Nonsense", True, True),
    ],
)
def test_which_vms_an_eviction_shuts_down(strategy: str, migratable: bool | None, mortal: bool) -> None:
    assert Machine(vmi(strategy=strategy, migratable=migratable), "LiveMigrate").shut_down_by_eviction is mortal


def test_the_default_counts_where_nothing_is_recorded_and_kubevirts_own_where_the_cr_is_silent() -> None:
    paper: Any = Paper(vmi(), vmi("old", phase="Succeeded"))
    (one,) = machines(paper, "LiveMigrate").running
    assert (one.recorded, one.strategy) == (None, "LiveMigrate")
    assert machines(paper, None).running[0].strategy == "None"


def node(name: str, *, cordoned: bool = False, **labels: str) -> Obj:
    metadata = {"name": name, "labels": {k.replace("_", "/"): v for k, v in labels.items()}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"unschedulable": cordoned}}


def test_workers_are_those_virt_handler_marked_unless_it_marked_none() -> None:
    marked: Any = Paper(
        node("a", **{"kubevirt.io_schedulable": "true"}), node("b", **{"kubevirt.io_schedulable": "false"}), node("c")
    )
    nodes = look(marked, NODES)
    assert [[n["metadata"]["name"] for n in found] for found in (virt_workers(nodes)[0], virt_nodes(nodes))] == [["a"], ["a", "b"]]
    plain: Any = Paper(node("a"), node("b", cordoned=True), node("c", **{"node-role.kubernetes.io_control-plane": ""}))
    nodes = look(plain, NODES)
    assert [[n["metadata"]["name"] for n in found] for found in (virt_workers(nodes)[0], virt_nodes(nodes))] == [["a"], ["a", "b"]]


def test_a_message_names_a_few_and_counts_the_rest() -> None:
    assert named(["a", "b"]) == "a, b"
    assert named(map(str, range(8))) == "0, 1, 2, 3, 4 and 3 more"
