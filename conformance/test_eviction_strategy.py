"""HCO: where the eviction strategy is set, from HyperConverged down to the VMI."""

from __future__ import annotations

from fixtures.checks import Impact, check, inconclusive, not_applicable
from fixtures.cluster.api import Cluster, Presence
from fixtures.cluster.discover.hco import HcoInstall
from fixtures.cluster.discover.kubevirt import STRATEGY_PATH, KubeVirtInstall
from fixtures.cluster.discover.schema import fields_of
from fixtures.kube.resources import KUBEVIRTS, VMIS, VMS

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
