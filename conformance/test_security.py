"""SEC: what keeps VMs and the policy from the wrong hands, and migrations from the wrong eyes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fixtures.checks import Impact, Level, check, inconclusive, not_applicable
from fixtures.cluster.api import Cluster, Presence
from fixtures.cluster.discover import rights
from fixtures.cluster.discover.installation import PolicyFound
from fixtures.cluster.discover.kubevirt import Interceptor, KubeVirtInstall
from fixtures.cluster.discover.looking import look, look_at
from fixtures.cluster.discover.machines import named
from fixtures.cluster.discover.rbac import Rbac, account
from fixtures.cluster.discover.workload import DeschedulerWorkload
from fixtures.kube.objects import dig, name
from fixtures.kube.resources import MIGRATIONPOLICIES, NETWORK_ATTACHMENTS
from fixtures.run import Attach
from fixtures.versions import KubeVirtFacts

DEDICATED = "migration network"


def required_on_the_pod_network(facts: Mapping[str, Any]) -> Level:
    """Required, with a dedicated migration network recommended."""
    return Level.RECOMMENDED if facts.get(DEDICATED) == Presence.PRESENT.value else Level.REQUIRED


def required_on_upstream_tags(facts: Mapping[str, Any]) -> Level:
    """Required on KubeVirt's upstream tags, else recommended."""
    return Level.REQUIRED if facts.get("upstream tag") else Level.RECOMMENDED


@check(
    "SEC-1",
    level=required_on_the_pod_network,
    impact=Impact.READ_ONLY,
    source="KubeVirt intercepts that request and live-migrates the VMI instead of stopping the VM",
)
def test_migrations_are_encrypted(kubevirt: KubeVirtInstall) -> None:
    """Migration traffic is encrypted: disableTLS is not true."""
    found = kubevirt.migrations.get("disableTLS")
    assert found is not True, (
        f"{kubevirt.where}: spec.configuration.migrations.disableTLS is true, "
        "so guest memory crosses the network in the clear; unset it"
    )


@check("SEC-2", impact=Impact.READ_ONLY, source="Editing the ConfigMap is the supported configuration path")
def test_not_everybody_may_evict_migrate_or_edit_the_policy(rbac: Rbac, policy: PolicyFound, evidence: Attach) -> None:
    """Nobody unexpected (anonymous, all users, all ServiceAccounts) may create evictions or migrations or edit the policy."""
    wanted = rights.sensitive(policy.namespace, policy.name)
    who = {str(right): rbac.who_can(right) for right in wanted}
    evidence("who can", "RBAC", {right: [str(grant) for grant in found] for right, found in who.items()})
    everybody = [f"{right}: {grant}" for right, found in who.items() for grant in found if grant.subject.everybody]
    assert not everybody, f"everybody may {named(everybody)}; remove these bindings"
    if rbac.gaps:
        inconclusive(f"no recorded binding lets everybody; {rbac.gaps}")


@check(
    "SEC-3",
    level=required_on_upstream_tags,
    impact=Impact.READ_ONLY,
    source="KubeVirt intercepts that request and live-migrates the VMI instead of stopping the VM",
)
def test_the_interceptor_fails_closed(interceptor: Interceptor, kubevirt: KubeVirtInstall, kubevirt_facts: KubeVirtFacts) -> None:
    """Without an answer of the interceptor an eviction is refused, where this KubeVirt release should have it so."""
    if not interceptor:
        inconclusive(f"there is no interceptor to look at: {interceptor.probe.evidence}")
    if kubevirt_facts.failure_policy != "Fail":
        not_applicable(f"KubeVirt {kubevirt.observed} registers failurePolicy {kubevirt_facts.failure_policy}")
    assert interceptor.failure_policy == "Fail", (
        f"{interceptor.where}: failurePolicy is {interceptor.failure_policy}, wanted Fail: "
        "while virt-api is down evictions shut VMs down"
    )


@check(
    "SEC-4",
    level=Level.RECOMMENDED,
    impact=Impact.READ_ONLY,
    source="the Pod was not evicted, a migration was requested",
)
def test_the_descheduler_cannot_change_vms(consumer: DeschedulerWorkload, rbac: Rbac, evidence: Attach) -> None:
    """The descheduling ServiceAccount cannot change VMs, VMIs or migrations, and cannot exec; Pod delete is noted."""
    who = account(consumer.namespace, consumer.service_account)
    place = f"ServiceAccount {consumer.namespace}/{consumer.service_account}"
    evidence("note", place, f"{rights.UNUSED}: {'granted, and never used' if rbac.may(who, rights.UNUSED) else 'not granted'}")
    found = [str(right) for right in rights.excessive() if rbac.may(who, right)]
    assert not found, f"{place} may {named(found)}; a descheduler asks for evictions and needs none of these"
    if rbac.gaps:
        inconclusive(f"{place} has no such right by what is recorded; {rbac.gaps}")


@check(
    "SEC-5",
    level=Level.INFORMATIONAL,
    impact=Impact.READ_ONLY,
    source="Watch KubeVirt complete the migration",
)
def test_migration_policies_and_network_are_effective(cluster: Cluster, kubevirt: KubeVirtInstall, evidence: Attach) -> None:
    """Each MigrationPolicy selects something, and the migration network, where one is named, exists."""
    looked = look(cluster, MIGRATIONPOLICIES)
    network = kubevirt.migrations.get("network")
    evidence("MigrationPolicies", looked.probe.evidence, {name(p): dig(p, "spec") for p in looked.objects})
    evidence("migration network", kubevirt.where, network or "none: the Pod network")
    idle = [name(p) for p in looked.objects if not any(dig(p, "spec", "selectors", default={}).values())]
    assert not idle, f"MigrationPolicies without selectors apply to no VM: {named(idle)}"
    if network:
        _, probe = look_at(cluster, NETWORK_ATTACHMENTS, str(network), ns=kubevirt.namespace)
        assert probe.presence is not Presence.ABSENT, f"{kubevirt.where}: migrations.network is {network!r}; {probe.evidence}"
        if probe.presence is Presence.UNKNOWN:
            inconclusive(f"whether the migration network {network!r} exists is unknown: {probe.evidence}")
    if looked.probe.presence is Presence.UNKNOWN:
        inconclusive(f"MigrationPolicies could not be listed: {looked.probe.evidence}")
    if looked.gaps:
        inconclusive(f"nothing is wrong with the MigrationPolicies that are recorded; {looked.gaps}")
