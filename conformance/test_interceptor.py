"""INT: KubeVirt's eviction interceptor and what makes launchers known to the descheduler."""

from __future__ import annotations

from fixtures.checks import Impact, check, inconclusive
from fixtures.cluster.api import Cluster, Presence
from fixtures.cluster.discover.kubevirt import (
    INTERCEPTOR,
    REQUEST_EVICT_ONLY,
    Interceptor,
    KubeVirtInstall,
    Launchers,
    ready_endpoints,
)
from fixtures.kube.objects import annotations_of, full_name
from fixtures.run import Attach
from fixtures.versions import KubeVirtFacts, is_upstream_tag


@check("INT-1", impact=Impact.READ_ONLY, source=f"The KubeVirt webhook {INTERCEPTOR} decides what happens")
def test_the_interceptor_is_registered(
    interceptor: Interceptor, kubevirt: KubeVirtInstall, kubevirt_facts: KubeVirtFacts, evidence: Attach
) -> None:
    """The interceptor is registered for pods/eviction, to virt-api's service, as this KubeVirt version registers it."""
    if interceptor.probe.presence is Presence.UNKNOWN:
        inconclusive(f"whether the interceptor is registered is unknown: {interceptor.probe.evidence}")
    assert interceptor, f"{interceptor.probe.evidence}; evictions of VMs shut them down; look at virt-operator"
    evidence("webhook", interceptor.where, interceptor.webhook)
    assert interceptor.covers_evictions, f"{interceptor.where}: no rule covers the creation of pods/eviction"
    wanted = (kubevirt.namespace, "virt-api")
    assert interceptor.service == wanted, (
        f"{interceptor.where}: calls service {'/'.join(interceptor.service)}, wanted {'/'.join(wanted)}"
    )
    if is_upstream_tag(kubevirt.observed) and not kubevirt_facts.assumed:
        _as_released(interceptor, kubevirt_facts)


@check("INT-2", impact=Impact.READ_ONLY, source="KubeVirt intercepts that request")
def test_the_interceptors_service_answers(cluster: Cluster, interceptor: Interceptor, kubevirt: KubeVirtInstall) -> None:
    """The service that the interceptor calls (virt-api) has ready endpoints."""
    ns, service = interceptor.service
    ns, service = (ns or kubevirt.namespace, service or "virt-api")
    ready, probe = ready_endpoints(cluster, ns, service)
    if probe.presence is Presence.UNKNOWN:
        inconclusive(f"EndpointSlices of {ns}/{service} could not be listed: {probe.evidence}")
    assert ready, f"{probe.evidence}: evictions of VMs fail or shut them down; look at the Pods behind it"


@check(
    "INT-3",
    impact=Impact.READ_ONLY,
    source='KubeVirt adds the annotation descheduler.alpha.kubernetes.io/request-evict-only: "" to every virt-launcher Pod',
)
def test_every_launcher_asks_for_requests_only(launchers: Launchers) -> None:
    """Every running launcher carries request-evict-only, whatever its strategy."""
    if launchers.probe.presence is Presence.UNKNOWN:
        inconclusive(f"launchers could not be listed: {launchers.probe.evidence}")
    if not launchers.running:
        inconclusive("no launcher is running, so there is nothing to look at; start a VM")
    without = [full_name(p) for p in launchers.running if REQUEST_EVICT_ONLY not in annotations_of(p)]
    assert not without, (
        f"{len(without)} of {len(launchers.running)} running launchers lack the annotation {REQUEST_EVICT_ONLY}: "
        f"{', '.join(without[:10])}{' …' if len(without) > 10 else ''}; the descheduler would take their 429 for a failure"
    )
    if launchers.gaps:
        inconclusive(f"the {len(launchers.running)} recorded launchers carry {REQUEST_EVICT_ONLY}, but {launchers.gaps}")


def _as_released(interceptor: Interceptor, facts: KubeVirtFacts) -> None:
    for field, found, wanted in (
        ("clientConfig.service.path", interceptor.path, facts.webhook_path),
        ("failurePolicy", interceptor.failure_policy, facts.failure_policy),
        ("matchConditions", bool(interceptor.match_conditions), facts.match_conditions),
    ):
        assert found == wanted, f"{interceptor.where}: {field} is {found!r}, KubeVirt {facts.version} registers {wanted!r}"
