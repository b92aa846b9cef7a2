"""``explain``: every reason told, the next cycles simulated, nothing written."""

from __future__ import annotations

import copy
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fixtures.engine.reference.snapshot import Snapshot
from fixtures.launcher.__main__ import main
from fixtures.launcher.explaining.judging import EXTERNAL, KILLED, MIGRATES, REFUSED, Told, judge, on_eviction
from fixtures.launcher.explaining.reading import Seen
from fixtures.launcher.explaining.telling import as_wire, cycles, tell

KINDS = ("VirtualMachine", "VirtualMachineInstance", "Pod")
DUMP = Path(__file__).parents[1] / "data/dump"
POLICY = """apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
maxNoOfPodsToEvictTotal: 1
profiles:
- name: rebalance
  pluginConfig:
  - name: DefaultEvictor
    args: {nodeFit: true, podProtections: {defaultDisabled: [PodsWithLocalStorage]}, labelSelector: {matchLabels: {move: "yes"}}}
  - name: LowNodeUtilization
    args: {thresholds: {cpu: 30}, targetThresholds: {cpu: 50}}
  plugins:
    balance: {enabled: [LowNodeUtilization]}
"""


def node(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "allocatable": {"cpu": "10", "memory": "64Gi", "pods": "100"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def vm(name: str, *, strategy: str | None = "LiveMigrate", migratable: str = "True", move: str = "yes", **marks: str) -> list[Any]:
    """VM, VMI and launcher Pod of a VM that asks for two cores on node a."""
    uid, meta = f"uid-{name}", {"name": name, "namespace": "ns"}
    condition = {"type": "LiveMigratable", "status": migratable, "reason": "DisksNotLiveMigratable" if migratable != "True" else ""}
    vmi = {
        "metadata": meta | {"uid": uid},
        "spec": {"evictionStrategy": strategy} if strategy else {},
        "status": {"phase": "Running", "nodeName": "a", "conditions": [condition]},
    }
    pod = {
        "metadata": {
            "name": f"virt-launcher-{name}-x",
            "namespace": "ns",
            "uid": f"pod-{name}",
            "labels": {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": uid, "move": move},
            "annotations": {"descheduler.alpha.kubernetes.io/request-evict-only": ""} | marks,
            "ownerReferences": [{"kind": "VirtualMachineInstance", "name": name, "uid": uid, "controller": True}],
        },
        "spec": {"nodeName": "a", "containers": [{"name": "compute", "resources": {"requests": {"cpu": "2"}}}]},
        "status": {"phase": "Running"},
    }
    return [{"metadata": meta, "status": {"printableStatus": "Running"}}, vmi, pod]


def seen(*vms: list[Any], policy: str = POLICY, gate: bool = True, others: list[Any] | None = None) -> Seen:
    namespaces = [{"metadata": {"name": "ns"}}]
    snapshot = Snapshot(nodes=[node("a"), node("b")], pods=[v[2] for v in vms], namespaces=namespaces, now=1e9)
    return Seen(
        snapshot=snapshot,
        vms=[v[0] for v in vms] + (others or []),
        vmis=[v[1] for v in vms],
        migrations=[],
        policy=policy,
        policy_from="ConfigMap x",
        version="0.36.0",
        version_from="image",
        gate=gate,
        gate_from="args",
        default_strategy="LiveMigrate",
        strategy_from="KubeVirt CR",
    )


def told(*vms: list[Any], count: int = 5, **more: Any) -> tuple[Told, dict[str, Any]]:
    found = judge(seen(*vms, **more), cycles=count)
    return found, {s.vm: s for s in found.standings}


THREE = [vm("one"), vm("two"), vm("three")]


def test_who_moves_in_which_cycle_and_who_stays_because_it_is_balanced():
    found, by_name = told(*THREE)
    assert found.nodes["a"]["class"] == "overutilized"
    assert [(m.source, m.target, m.background) for m in found.simulation.moves] == [("a", "b", True)]
    assert sorted(s.outcome for s in by_name.values()) == ["could move", "could move", "moves"]
    mover = next(s for s in by_name.values() if s.outcome == "moves")
    assert (mover.cycle, mover.target, mover.node, mover.node_class) == (1, "b", "a", "overutilized")
    assert cycles(found)[-1] == "balanced after cycle 1"


@pytest.mark.parametrize(
    ("strategy", "migratable", "wanted"),
    [
        ("LiveMigrate", True, MIGRATES),
        ("LiveMigrate", False, REFUSED),
        ("LiveMigrateIfPossible", True, MIGRATES),
        ("LiveMigrateIfPossible", False, KILLED),
        ("External", True, EXTERNAL),
        ("None", True, KILLED),
        ("", True, KILLED),
    ],
)
def test_what_kubevirt_does_with_an_eviction(strategy, migratable, wanted):
    assert on_eviction(strategy, migratable=migratable) == wanted


def test_a_vm_that_would_be_shut_down_is_told_so():
    _, by_name = told(vm("one", strategy="None"), vm("two", move="no"), vm("three", move="no"))
    assert by_name["ns/one"].outcome == "is shut down"
    assert by_name["ns/two"].outcome == "stays"
    assert any(kind == "filter" and "label" in text.lower() for kind, text in by_name["ns/two"].reasons)


def test_a_vm_that_kubevirt_refuses_to_evict_stays_with_the_condition_as_reason():
    _, by_name = told(vm("one", migratable="False"), vm("two", move="no"), vm("three", move="no"))
    one = by_name["ns/one"]
    assert one.outcome == "stays"
    assert one.migratable_because == "DisksNotLiveMigratable"
    assert "KubeVirt refuses: strategy LiveMigrate, LiveMigratable=False DisksNotLiveMigratable" in one.reasons[-1][1]


def test_the_effective_strategy_and_where_it_comes_from():
    _, by_name = told(vm("one", strategy=None), vm("two"))
    assert (by_name["ns/one"].strategy, by_name["ns/one"].strategy_from) == ("LiveMigrate", "KubeVirt CR")
    assert by_name["ns/two"].strategy_from == "spec.evictionStrategy of the VMI"


def test_markers_of_an_eviction_under_way_are_told():
    marked = vm("one", **{"descheduler.alpha.kubernetes.io/eviction-in-progress": "true"})
    marked[1]["status"]["evacuationNodeName"] = "a"
    _, by_name = told(marked, vm("two"), vm("three"))
    one = by_name["ns/one"]
    assert one.markers == {"evacuationNodeName": "a", "eviction-in-progress": "true"}
    assert ("in-flight", "an eviction of the pod is under way") in one.reasons
    bare = vm("one")
    del bare[2]["metadata"]["annotations"]
    assert told(bare)[1]["ns/one"].markers == {"request-evict-only": "missing"}


def test_a_stopped_vm_has_nothing_to_move():
    stopped = {"metadata": {"name": "off", "namespace": "ns"}, "status": {"printableStatus": "Stopped"}}
    _, by_name = told(vm("one"), others=[stopped])
    assert by_name["ns/off"].reasons == [("vm", "it is not running (Stopped): there is no Pod to move")]


def test_a_policy_that_the_descheduler_refuses_is_the_reason_for_all():
    found, by_name = told(*THREE, policy=POLICY.replace("{cpu: 30}", "{cpu: 300}"))
    assert "cpu threshold not in [0, 100] range" in found.refused
    assert {s.reasons[0][0] for s in by_name.values()} == {"policy"}
    assert found.simulation.cycles == []


def test_nothing_that_was_read_is_changed():
    before = seen(*THREE)
    copy_of = copy.deepcopy(before)
    judge(before, cycles=5)
    assert before == copy_of


def test_the_table_and_the_json_tell_the_same_without_secrets():
    bad = vm("one", migratable="False")
    bad[1]["status"]["conditions"][0]["message"] = "token: abcdefgh12345"
    found, _ = told(bad, *THREE[1:], gate=False)
    out = io.StringIO()
    tell(Console(file=out, width=160), found, found.standings)
    wire = json.dumps(as_wire(found, found.standings))
    for text in (out.getvalue(), wire):
        assert "abcdefgh12345" not in text
        assert "ns/one" in text
    assert "EvictionsInBackground OFF" in out.getvalue()


def printed(*vms: list[Any], each: bool = False) -> str:
    found, _ = told(*vms)
    out = io.StringIO()
    tell(Console(file=out, width=160), found, found.standings, each=each)
    return out.getvalue()


def test_many_vms_are_grouped_by_what_is_the_same_of_them_unless_each_is_wanted():
    many = [*(vm(f"web-{n}", move="no", strategy=None) for n in range(500)), vm("db", strategy="None")]
    text = printed(*many)
    assert len(text.splitlines()) < 40
    assert "501 VMs: 1 would be shut down, 500 would stay" in text
    assert text.index("1: ns/db") < text.index("500: ns/web-0, ns/web-1,")
    assert "LiveMigrate (default)" in text
    assert "default eviction strategy LiveMigrate (KubeVirt CR)" in text
    assert "ns/web-499" in printed(*many, each=True)


def test_what_a_cluster_says_does_not_act_on_the_terminal():
    bad = vm("one", migratable="False")
    bad[1]["status"]["conditions"][0]["message"] = "\x1b]0;title no [red]way"
    text = printed(bad)
    assert "\ufffd]0;title" in text
    assert "[red]way" in text


def test_a_policy_of_ones_own_needs_no_installed_descheduler(tmp_path, capsys):
    objects = [node("a") | {"kind": "Node"}, *(o | {"kind": k} for o, k in zip(vm("one"), KINDS, strict=True))]
    versions = {"Node": "v1", "Pod": "v1"}
    lists = [{"apiVersion": versions.get(o["kind"], "kubevirt.io/v1"), "kind": o["kind"] + "List", "items": [o]} for o in objects]
    (tmp_path / "dump.json").write_text("\n".join(map(json.dumps, lists)))
    (tmp_path / "policy.yaml").write_text(POLICY)
    dump = ["explain", "--cluster=files", f"--manifests={tmp_path / 'dump.json'}"]
    assert main(dump) == 4
    assert "no policy to explain: " in capsys.readouterr().err
    assert main([*dump, f"--policy={tmp_path / 'policy.yaml'}"]) == 0
    assert f"policy: --policy={tmp_path / 'policy.yaml'}" in capsys.readouterr().out.replace("\n", "")


@pytest.mark.slow
def test_it_works_on_the_embedded_cluster_for_all_and_for_one(capsys):
    assert main(["explain", "--json", "--cycles=2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [v["vm"] for v in found["vms"]] == ["tenant-a/erp-app", "tenant-a/erp-db"]
    assert all(v["reasons"] for v in found["vms"])
    assert main(["explain", "erp-db"]) == 0
    out = capsys.readouterr().out
    assert "erp-db" in out
    assert "erp-app" not in out


@pytest.mark.slow
def test_it_works_on_a_cluster_dump_and_says_what_is_not_in_it(capsys):
    assert main(["explain", "--cluster=files", f"--manifests={DUMP}"]) == 0
    out = capsys.readouterr().out
    assert "poddisruptionbudgets cannot be read, taken for none" in out
    assert "rebalance-test/vm-0" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "message"),
    [(["nobody"], "no VM nobody; there are: tenant-a/erp-app"), (["--defect=policy-not-yaml"], "")],
)
def test_bad_input_is_a_message(args, message, capsys):
    assert main(["explain", *args]) in (1, 4)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("args", [["--cycles=0"], ["--cycles=x"], ["--clusters=live"]])
def test_bad_usage_ends_with_status_4(args):
    with pytest.raises(SystemExit) as ended:
        main(["explain", *args])
    assert ended.value.code == 4
