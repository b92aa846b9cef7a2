"""POL: the policy ConfigMap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fixtures.checks import Impact, Level, check, inconclusive, not_applicable
from fixtures.cluster.api import Presence
from fixtures.cluster.discover.installation import SELECTOR, Installation, PolicyFound
from fixtures.cluster.discover.kubevirt import Launchers
from fixtures.cluster.discover.policydoc import PolicyDoc
from fixtures.cluster.discover.workload import Flavour
from fixtures.kube.objects import annotations_of
from fixtures.run import Attach

EVICT = "descheduler.alpha.kubernetes.io/evict"


def required_on_acp(facts: Mapping[str, Any]) -> Level:
    """Required on ACP, else recommended."""
    return Level.REQUIRED if facts.get("platform") == "acp" else Level.RECOMMENDED


@check("POL-1", impact=Impact.READ_ONLY, source="a labeled Descheduler ConfigMap exists")
def test_a_policy_configmap_exists(installation: Installation, evidence: Attach) -> None:
    """A policy ConfigMap exists; on ACP and Helm installs it carries app.kubernetes.io/name=descheduler."""
    policy = installation.policy
    if installation.installed is Presence.ABSENT:
        not_applicable(f"no descheduler is installed: {policy.probe.evidence}")
    if not policy and policy.probe.presence is Presence.UNKNOWN:
        inconclusive(f"whether a policy ConfigMap exists is unknown: {policy.probe.evidence}")
    assert policy.configmap is not None, f"a descheduler is installed but no policy ConfigMap was found: {policy.probe.evidence}"
    evidence("object", policy.where, policy.configmap)
    if installation.flavour in (Flavour.ACP, Flavour.HELM):
        assert policy.labelled, f"{policy.where}: label {SELECTOR} is missing; it was found through the consumer's volume"


@check("POL-2", impact=Impact.READ_ONLY, source="data.policy.yaml parses as a DeschedulerPolicy with profiles")
def test_the_policy_parses(policy: PolicyFound, policy_doc: PolicyDoc, evidence: Attach) -> None:
    """data["policy.yaml"] is a descheduler/v1alpha2 DeschedulerPolicy with profiles."""
    if policy.configmap is None:
        not_applicable(f"there is no policy ConfigMap: {policy.probe.evidence}")
    evidence("policy", policy.where, policy.text)
    assert not policy_doc.problem, f"{policy.where}: {policy_doc.problem}"


@check(
    "POL-4",
    level=required_on_acp,
    impact=Impact.READ_ONLY,
    source="PodsWithLocalStorage must stay disabled: every virt-launcher Pod has several emptyDir volumes",
)
def test_local_storage_is_not_protected(policy: PolicyFound, policy_doc: PolicyDoc, launchers: Launchers) -> None:
    """Every profile that evicts has the local-storage protection off, in either dialect."""
    _readable(policy, policy_doc)
    running = launchers.running
    if running and all(EVICT in annotations_of(p) for p in running):
        not_applicable(f"all {len(running)} running launchers carry {EVICT}, which overrides every protection")
    evicting = [p for p in policy_doc.profiles if p.evicts]
    if not evicting:
        not_applicable(f"{policy.where}: no profile has a plugin that evicts")
    for profile in evicting:
        wanted = "wanted podProtections.defaultDisabled: [PodsWithLocalStorage] (or evictLocalStoragePods: true before 0.34)"
        assert not profile.local_storage_protected, (
            f"{policy.where}: profile {profile.name!r}, DefaultEvictor protects local storage, so no launcher can move; {wanted}"
        )


@check("POL-7", impact=Impact.READ_ONLY, source="LowNodeUtilization.args.evictableNamespaces accepts only exclude")
def test_namespaces_are_only_excluded(policy: PolicyFound, policy_doc: PolicyDoc) -> None:
    """Only exclude is used in evictableNamespaces."""
    _readable(policy, policy_doc)
    for profile, plugin, args in policy_doc.utilization_args():
        namespaces = args.get("evictableNamespaces")
        found = namespaces.get("include") if isinstance(namespaces, dict) else None
        assert not found, (
            f"{policy.where}: profile {profile!r}, {plugin}: evictableNamespaces.include is {found!r}, wanted only exclude; "
            "every run fails with 'only Exclude namespaces can be set, inclusion is not supported'"
        )


def _readable(policy: PolicyFound, doc: PolicyDoc) -> None:
    if policy.configmap is None:
        not_applicable(f"there is no policy ConfigMap: {policy.probe.evidence}")
    if doc.problem:
        inconclusive(f"{policy.where} cannot be read: {doc.problem}")
