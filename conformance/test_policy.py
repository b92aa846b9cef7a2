"""POL: the policy ConfigMap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fixtures.checks import Impact, Level, check, inconclusive, not_applicable
from fixtures.cluster.api import Presence
from fixtures.cluster.discover import policyadvice, policyreach
from fixtures.cluster.discover.enginepolicy import EnginePolicy
from fixtures.cluster.discover.installation import SELECTOR, Installation, PolicyFound
from fixtures.cluster.discover.kubevirt import Launchers
from fixtures.cluster.discover.machines import named
from fixtures.cluster.discover.policydoc import PolicyDoc
from fixtures.cluster.discover.policylint import dropped
from fixtures.cluster.discover.policyreach import Reached
from fixtures.cluster.discover.workload import Flavour
from fixtures.engine.reference.known_defects import met_by
from fixtures.engine.reference.policy import Policy
from fixtures.found import Found
from fixtures.kube.objects import annotations_of, full_name
from fixtures.kube.resources import Obj
from fixtures.run import Attach

EVICT = "descheduler.alpha.kubernetes.io/evict"


def required_on_acp(facts: Mapping[str, Any]) -> Level:
    """Required on ACP, else recommended."""
    return Level.REQUIRED if facts.get("platform") == "acp" else Level.RECOMMENDED


def required_of_the_package(facts: Mapping[str, Any]) -> Level:
    """Required of the unmodified package (ACP without ResourcePatch on the policy, or files), else recommended."""
    unmodified = facts.get("platform") == "acp" and facts.get("policy modified") == Presence.ABSENT.value
    return Level.REQUIRED if unmodified or facts.get("source") == "files" else Level.RECOMMENDED


@check("POL-1", impact=Impact.READ_ONLY, source="a labeled Descheduler ConfigMap exists")
def test_a_policy_configmap_exists(installation: Installation, evidence: Attach) -> None:
    """A policy ConfigMap exists; on ACP and Helm installs it carries app.kubernetes.io/name=descheduler."""
    policy = installation.policy
    if installation.installed is Presence.ABSENT:
        not_applicable(f"no descheduler is installed: {policy.probe.evidence}")
    if policy.configmap is None and policy.probe.presence is Presence.UNKNOWN:
        inconclusive(f"whether a policy ConfigMap exists is unknown: {policy.probe.evidence}")
    declared = f" ({installation.declared.evidence})" if installation.declared is not None else ""
    assert policy.configmap is not None, (
        f"a descheduler is installed{declared}, but no policy ConfigMap was found: {policy.probe.evidence}"
    )
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


@check("POL-3", impact=Impact.READ_ONLY, source="The policy is a raw descheduler/v1alpha2 DeschedulerPolicy")
def test_the_installed_release_accepts_the_policy(
    policy: PolicyFound, policy_doc: PolicyDoc, engine_policy: EnginePolicy, evidence: Attach
) -> None:
    """The installed release would accept it: args of all in-tree plugins decoded and validated, enabled plugins configured."""
    _readable(policy, policy_doc)
    if engine_policy.unknown:
        inconclusive(f"{policy.where}: {engine_policy.unknown}")
    evidence("policy", policy.where, policy.text)
    assert not engine_policy.refusal, f"{policy.where}: {engine_policy.engine} refuses it: {engine_policy.refusal}"
    if engine_policy.foreign:
        names = ", ".join(engine_policy.foreign)
        inconclusive(f"{policy.where}: {names} is no in-tree plugin of {engine_policy.engine}; only the rest could be validated")


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
    if running and not launchers.gaps and all(EVICT in annotations_of(p) for p in running):
        not_applicable(f"all {len(running)} running launchers carry {EVICT}, which overrides every protection")
    evicting = [p for p in policy_doc.profiles if p.evicts]
    if not evicting:
        not_applicable(f"{policy.where}: no profile has a plugin that evicts")
    for profile in evicting:
        wanted = "wanted podProtections.defaultDisabled: [PodsWithLocalStorage] (or evictLocalStoragePods: true before 0.34)"
        assert not profile.local_storage_protected, (
            f"{policy.where}: profile {profile.name!r}, DefaultEvictor protects local storage, so no launcher can move; {wanted}"
        )


@check(
    "POL-5",
    level=required_of_the_package,
    impact=Impact.READ_ONLY,
    source="the default policy is safe for VMs but cannot rebalance them",
)
def test_vms_with_claims_are_protected_or_few(policy: PolicyFound, loaded_policy: Policy, found: Found) -> None:
    """The shipped policy protects PodsWithPVC; one without that protection is scoped by label or namespace, or bounded."""
    as_shipped = found.facts["platform"] == "acp" and found.facts["policy modified"] == Presence.ABSENT.value
    limits = policyreach.bounds(loaded_policy)
    for profile in policyreach.evicting(loaded_policy):
        if policyreach.protects(profile, policyreach.CLAIMS):
            continue
        where = f"{policy.where}: profile {profile.name!r} does not protect PodsWithPVC"
        assert not as_shipped, f"{where}, and no ResourcePatch says that somebody edited what the package ships"
        assert limits or policyreach.scoped(profile), (
            f"{where}, so every VM of the cluster may be moved; scope it with DefaultEvictor.labelSelector or namespaces, "
            "or bound it with maxNoOfPodsToEvict* or evictionLimits.node"
        )


@check(
    "POL-6",
    level=Level.RECOMMENDED,
    impact=Impact.READ_ONLY,
    source="they cap the number of concurrent migrations per cycle",
)
def test_a_policy_that_moves_vms_is_bounded(policy: PolicyFound, loaded_policy: Policy, found: Found, evidence: Attach) -> None:
    """A policy that can move VMs has limits, and they fit what KubeVirt migrates at once."""
    kubevirt = found.kubevirt
    if kubevirt.probe.presence is Presence.ABSENT:
        not_applicable(f"KubeVirt is not installed: {kubevirt.probe.evidence}")
    movable = _movable(policy, loaded_policy, found)
    evidence("VMs", "launchers the policy may move", movable)
    limits = policyreach.bounds(loaded_policy)
    assert limits, (
        f"{policy.where}: it may move {_some(movable)} and has no limit; "
        "set maxNoOfPodsToEvictTotal, PerNode or PerNamespace, or evictionLimits.node"
    )
    if not kubevirt and max(limits.values()) > 1:
        said = ", ".join(f"{key} {value}" for key, value in limits.items())
        inconclusive(f"{policy.where}: it is bounded ({said}), but what KubeVirt migrates at once is unknown: {kubevirt.where}")
    beyond = policyreach.beyond(limits, kubevirt.migrations)
    assert not beyond, f"{policy.where}: {'; '.join(beyond)}; lower the policy's limit or raise KubeVirt's"


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


@check(
    "POL-8",
    level=Level.RECOMMENDED,
    impact=Impact.READ_ONLY,
    source="the thresholds are too close together for the size of the workloads",
)
def test_thresholds_leave_room_for_the_largest_vm(  # noqa: PLR0917 (pytest hands fixtures over by name)
    policy: PolicyFound,
    loaded_policy: Policy,
    reached: list[Reached],
    launchers: Launchers,
    workers: list[Obj],
    evidence: Attach,
) -> None:
    """The gap between thresholds and targets is larger than any VM that may move, so nodes do not swap roles."""
    movable = [r for r in reached if r.movable]
    if not movable:
        _all_recorded(launchers)
        not_applicable(f"{policy.where}: it can move none of {len(reached)} running launchers")
    if not any(True for _ in policyreach.gaps(loaded_policy)):
        not_applicable(f"{policy.where}: no LowNodeUtilization classifies nodes by what Pods request")
    tight = policyreach.tight(loaded_policy, movable, workers)
    evidence("VMs", "launchers larger than the gap", [str(t) for t in tight])
    assert not tight, (
        f"{policy.where}: {len(tight)} of {len(movable)} movable VMs are larger than the gap between thresholds and targets, "
        f"so nodes swap roles: {named(map(str, tight))}; widen the gap instead of lowering the limits"
    )
    _all_recorded(launchers)


@check(
    "POL-9",
    level=Level.RECOMMENDED,
    impact=Impact.READ_ONLY,
    source="it has no predefined KubeVirt profile or descheduling mode setting",
)
def test_nothing_in_the_policy_is_dropped_silently(  # noqa: PLR0917 (pytest hands fixtures over by name)
    policy: PolicyFound, policy_doc: PolicyDoc, engine_policy: EnginePolicy, launchers: Launchers, found: Found, evidence: Attach
) -> None:
    """No key is ignored without a word, nothing means something else here than it says, and no known defect changes the meaning."""
    _readable(policy, policy_doc)
    if not engine_policy.release:
        inconclusive(f"{policy.where}: {engine_policy.unknown}")
    loaded = engine_policy.policy
    ignored = [str(d) for d in dropped(policy.text or "", engine_policy.release)]
    defects = [f"{d.what} ({d.source})" for d in (met_by(loaded) if loaded is not None else [])]
    marked = policyadvice.marked(launchers.running)
    given = policyadvice.advice(loaded, found.nodes, found.reached.items if marked else ()) if loaded is not None else []
    evidence("findings", policy.where, [*ignored, *defects])
    evidence("advice", policy.where, [str(a) for a in given])
    open_ = [f"{a} ({found.nodes.gaps})" for a in given if a.bites is None]
    told = [*ignored, *defects, *(str(a) for a in given if a.bites)]
    assert not told, f"{policy.where}, {engine_policy.engine}: {'; '.join([*told, *open_])}"
    if open_:
        inconclusive(f"{policy.where}: {'; '.join(open_)}")


def _readable(policy: PolicyFound, doc: PolicyDoc) -> None:
    if policy.configmap is None and policy.probe.presence is Presence.UNKNOWN:
        inconclusive(f"whether there is a policy ConfigMap is unknown: {policy.probe.evidence}")
    if policy.configmap is None:
        not_applicable(f"there is no policy ConfigMap: {policy.probe.evidence}")
    if doc.problem:
        inconclusive(f"{policy.where} cannot be read: {doc.problem}")


def _all_recorded(launchers: Launchers) -> None:
    if launchers.gaps:
        inconclusive(f"nothing is wrong with the {len(launchers.running)} launchers that are recorded; {launchers.gaps}")


def _movable(policy: PolicyFound, loaded: Policy, found: Found) -> list[str]:
    """The launchers that may move; not applicable where there are none. Without any launcher, or where files hold nothing of Pods,
    the protections tell.
    """
    reach = found.reached
    if reach.unknown and found.facts["source"] != "files":
        inconclusive(reach.unknown)
    if not reach.items:
        protected = [p.name for p in policyreach.evicting(loaded) if policyreach.shields(p)]
        if len(protected) == len(policyreach.evicting(loaded)):
            nobody = "no VM is recorded" if reach.unknown else "no VM is running"
            not_applicable(f"{policy.where}: {nobody}, and every profile protects PodsWithPVC or PodsWithLocalStorage")
        return []
    movable = sorted({full_name(r.pod) for r in reach.items if r.movable})
    if not movable:
        _all_recorded(found.launchers)
        why = sorted({text for r in reach.items for text in (r.reasons or ("it is not selected",))})
        not_applicable(f"{policy.where}: it can move none of {len(reach.items)} running launchers: {'; '.join(why)}")
    return movable


def _some(movable: list[str]) -> str:
    return f"{len(movable)} VMs ({named(movable)})" if movable else "VMs"
