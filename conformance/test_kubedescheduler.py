"""CRD: the separate KubeDescheduler API, where it is served."""

from __future__ import annotations

from fixtures.checks import Impact, check, inconclusive, not_applicable
from fixtures.cluster.api import Presence
from fixtures.cluster.discover.kubedescheduler import KubeDeschedulerFound

#: Field, its type, and values its enum must have (KubeDescheduler operator.openshift.io/v1).
SHAPE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (".spec.mode", "string", ("Automatic", "Predictive")),
    (".spec.deschedulingIntervalSeconds", "integer", ()),
    (".spec.profiles", "array", ()),
    (".spec.profiles[*]", "string", ("AffinityAndTaints",)),
    (".spec.profileCustomizations", "object", ()),
)


@check(
    "CRD-1",
    impact=Impact.READ_ONLY,
    source="if the separate KubeDescheduler CRD is served, its profile and field schema are checked independently",
)
def test_kubedescheduler_has_the_expected_shape(kubedescheduler: KubeDeschedulerFound) -> None:
    """mode, deschedulingIntervalSeconds, profiles and profileCustomizations have the expected shape."""
    if kubedescheduler.probe.presence is Presence.ABSENT:
        not_applicable(kubedescheduler.probe.evidence)
    if kubedescheduler.crd is None:
        inconclusive(f"the KubeDescheduler CRD cannot be read: {kubedescheduler.crd_probe.evidence}")
    for path, kind, values in SHAPE:
        found = kubedescheduler.field(path)
        assert found, found.evidence
        assert found.type == kind, f"{found.evidence}, wanted {kind}"
        missing = [v for v in values if v not in found.enum]
        assert not missing, f"{found.evidence}, wanted also {', '.join(missing)}"
