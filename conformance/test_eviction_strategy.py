"""HCO: where the eviction strategy is set, from HyperConverged down to the VMI."""

from __future__ import annotations

from fixtures.checks import Impact, Level, check, inconclusive, not_applicable
from fixtures.cluster.api import Cluster, Presence
from fixtures.cluster.discover.hco import HcoInstall
from fixtures.cluster.discover.kubevirt import STRATEGY_PATH, KubeVirtInstall
from fixtures.cluster.discover.machines import MIGRATING, Machine, Machines, chosen_by_vm, named, names_of
from fixtures.cluster.discover.policyreach import Reached
from fixtures.cluster.discover.schema import fields_of
from fixtures.kube.objects import annotations_of, namespace
from fixtures.kube.resources import KUBEVIRTS, VMIS, VMS, Obj
from fixtures.run import Attach

SOURCE = "KubeVirt HCO and VM eviction-strategy paths remain discoverable"


@check("HCO-1", impact=Impact.READ_ONLY, source=SOURCE)
def test_hyperconverged_has_the_strategy_path(hco: HcoInstall) -> None:
    """The strategy path exists in the schema of each served HyperConverged version."""
    if not hco:
        _absent("HyperConverged", hco.probe.presence, hco.probe.evidence)
    if hco.crd.presence is not Presence.PRESENT:
        inconclusive(f"the HyperConverged CRD cannot be read: {hco.crd.evidence}")
    for version in hco.versions:
        assert version.path, f"HyperConverged {version.version} is served, and this suite knows no strategy path in it"
        assert version.field is not None
        assert version.field, version.field.evidence


@check("HCO-2", impact=Impact.READ_ONLY, source="the cluster default from the KubeVirt resource, which HCO renders")
def test_kubevirt_has_the_strategy_that_hyperconverged_says(cluster: Cluster, kubevirt: KubeVirtInstall, hco: HcoInstall) -> None:
    """The path exists in the KubeVirt schema; with HCO the value equals HCO's."""
    if not kubevirt:
        _absent("KubeVirt", kubevirt.probe.presence, kubevirt.probe.evidence)
    _in_every_version(cluster, KUBEVIRTS.key, STRATEGY_PATH)
    if not hco:
        return
    if hco.tainted:
        inconclusive(f"{hco.where}: TaintedConfiguration is True, so the KubeVirt CR may rightly differ")
    assert kubevirt.strategy == hco.strategy, (
        f"{kubevirt.where}: spec.configuration.evictionStrategy is {kubevirt.strategy!r}, {hco.where} says {hco.strategy!r}; "
        "set it in HyperConverged and see why its operator does not carry it over"
    )


@check("HCO-3", impact=Impact.READ_ONLY, source=SOURCE)
def test_vm_and_vmi_have_the_strategy_paths(cluster: Cluster, kubevirt: KubeVirtInstall) -> None:
    """VM spec.template.spec.evictionStrategy and VMI spec.evictionStrategy exist in the schemas of each served version."""
    if not kubevirt:
        _absent("KubeVirt", kubevirt.probe.presence, kubevirt.probe.evidence)
    _in_every_version(cluster, VMS.key, "{.spec.template.spec.evictionStrategy}")
    _in_every_version(cluster, VMIS.key, "{.spec.evictionStrategy}")


@check(
    "HCO-4",
    level=Level.INFORMATIONAL,
    impact=Impact.READ_ONLY,
    source="the VMI's effective eviction strategy: the VMI's spec.evictionStrategy if set, otherwise the cluster default",
)
def test_no_running_vm_would_be_shut_down_by_an_eviction(machines: Machines, evidence: Attach) -> None:
    """Every running VMI's effective strategy is told; none is one under which an eviction shuts the VM down."""
    evidence("VMIs", "effective eviction strategies", machines.table())
    mortal = [m for m in machines.running if m.shut_down_by_eviction]
    assert not mortal, (
        f"{len(mortal)} of {len(machines.running)} running VMs would be shut down by an eviction: "
        f"{named(f'{m.name} ({m.strategy}{_stuck(m)})' for m in mortal)}; "
        "set LiveMigrate in the VM's template and restart it"
    )
    _all_recorded(machines)


@check(
    "HCO-5",
    level=Level.RECOMMENDED,
    impact=Impact.READ_ONLY,
    source="have LiveMigrate or LiveMigrateIfPossible as its effective eviction strategy",
)
def test_the_cluster_default_migrates(kubevirt: KubeVirtInstall, hco: HcoInstall, workers: list[Obj]) -> None:
    """VMs that say nothing get a migrating strategy."""
    if len(workers) < 2:
        not_applicable(f"a VM needs a second node to migrate to; nodes that take VMs: {names_of(workers)}")
    place = f"{hco.where} and {kubevirt.where}" if hco else kubevirt.where
    assert kubevirt.effective_strategy in MIGRATING, (
        f"{place}: evictionStrategy is {kubevirt.strategy!r}, wanted {' or '.join(MIGRATING)}; "
        f"set it in {'HyperConverged' if hco else 'the KubeVirt CR'}"
    )


@check(
    "HCO-6",
    level=Level.INFORMATIONAL,
    impact=Impact.READ_ONLY,
    source="existing VMIs keep their recorded value (for example None) until the VM is restarted",
)
def test_running_vms_recorded_the_current_default(
    cluster: Cluster, kubevirt: KubeVirtInstall, machines: Machines, evidence: Attach
) -> None:
    """No running VMI recorded another value than today's default, unless its VM's template asks for it."""
    default = kubevirt.effective_strategy
    other = [m for m in machines.running if m.recorded not in (None, default)]
    chosen, probe = chosen_by_vm(cluster) if other else ({}, machines.probe)
    if probe.presence is Presence.UNKNOWN:
        inconclusive(f"VMs could not be listed, so a strategy of their own cannot be told from an old default: {probe.evidence}")
    older = [m for m in other if chosen.get(m.name) != m.recorded]
    evidence("VMIs", f"recorded another strategy than {default}", {m.name: m.recorded for m in older})
    assert not older, (
        f"the default is {default}; {len(older)} of {len(machines.running)} running VMs recorded another: "
        f"{named(f'{m.name} ({m.recorded})' for m in older)}; restart them to take the new one"
    )
    _all_recorded(machines)


@check("HCO-8", level=Level.INFORMATIONAL, impact=Impact.READ_ONLY, source="report LiveMigratable=True")
def test_vms_in_the_policys_scope_can_migrate(machines: Machines, reached: list[Reached], evidence: Attach) -> None:
    """Every running VM that the policy selects by label and namespace is LiveMigratable; the others are named with the reason."""
    selected = {(namespace(r.pod), annotations_of(r.pod).get("kubevirt.io/domain", "")) for r in reached if r.selected}
    inside = [m for m in machines.running if tuple(m.name.split("/", 1)) in selected]
    if not inside:
        _all_recorded(machines)
        not_applicable(f"none of {len(machines.running)} running VMs is in the scope of the policy")
    stuck = [m for m in inside if not m.migratable]
    evidence("VMIs", "in scope and not LiveMigratable", {m.name: m.obstacle for m in stuck})
    assert not stuck, (
        f"{len(stuck)} of {len(inside)} VMs in the policy's scope are not LiveMigratable: "
        f"{named(f'{m.name} ({m.obstacle})' for m in stuck)}"
    )
    _all_recorded(machines)


def _all_recorded(machines: Machines) -> None:
    if machines.gaps:
        inconclusive(f"nothing is wrong with the {len(machines.running)} VMs that are recorded; {machines.gaps}")


def _stuck(machine: Machine) -> str:
    return "" if machine.migratable else ", not LiveMigratable"


def _in_every_version(cluster: Cluster, key: str, path: str) -> None:
    found, probe = fields_of(cluster, key, path)
    if not found:
        inconclusive(f"the CRD {key} cannot be read: {probe.evidence}")
    for field in found:
        assert field, field.evidence


def _absent(what: str, presence: Presence, evidence: str) -> None:
    if presence is Presence.ABSENT:
        not_applicable(f"{what} is not installed: {evidence}")
    inconclusive(f"whether {what} is installed is unknown: {evidence}")
