"""EVR: the EvictionRequest API, by which evictions may be asked for in the future."""

from __future__ import annotations

from fixtures.checks import Impact, Level, check, inconclusive, not_applicable
from fixtures.cluster.api import Cluster, Presence
from fixtures.kube.resources import EVICTIONREQUESTS
from fixtures.run import Attach


@check("EVR-1", level=Level.INFORMATIONAL, impact=Impact.READ_ONLY, source="calls the Eviction API")
def test_eviction_requests_are_served_in_a_known_version(cluster: Cluster, evidence: Attach) -> None:
    """Whether EvictionRequest of lifecycle.k8s.io is served, and in a version that this suite speaks."""
    probe = cluster.probe(EVICTIONREQUESTS.key)
    if probe.presence is Presence.ABSENT:
        not_applicable(f"EvictionRequest is not served: {probe.evidence}")
    if probe.presence is Presence.UNKNOWN:
        inconclusive(f"whether EvictionRequest is served is unknown: {probe.evidence}")
    evidence("probe", EVICTIONREQUESTS.key, probe.evidence)
    assert cluster.serves(EVICTIONREQUESTS), f"{probe.evidence}; this suite speaks {EVICTIONREQUESTS.version} only"
