"""CRD: the separate KubeDescheduler API, where it is served."""

from __future__ import annotations

from fixtures.checks import Impact, Level, check, inconclusive, not_applicable
from fixtures.cluster.api import Presence
from fixtures.cluster.discover.installation import Installation
from fixtures.cluster.discover.kubedescheduler import BACKGROUND, BACKGROUND_PROFILES, LONG_LIFECYCLE, KubeDeschedulerFound
from fixtures.cluster.discover.kubevirt import KubeVirtInstall
from fixtures.cluster.discover.workload import Flavour
from fixtures.run import Attach

#: Field, its type, and values its enum must have (KubeDescheduler operator.openshift.io/v1).
SHAPE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (".spec.mode", "string", ("Automatic", "Predictive")),
    (".spec.deschedulingIntervalSeconds", "integer", ()),
    (".spec.profiles", "array", ()),
    (".spec.profiles[*]", "string", ("AffinityAndTaints",)),
    (".spec.profileCustomizations", "object", ()),
)
#: Fields of newer operators (5.1.1 and later): checked where they are there.
NEWER: tuple[tuple[str, str], ...] = (
    (".spec.evictionLimits", "object"),
    (".spec.evictionLimits.total", "integer"),
    (".spec.evictionLimits.node", "integer"),
    (BACKGROUND, "boolean"),
)
#: How a descheduler gets there that this API has nothing to do with.
APART = (Flavour.ACP, Flavour.HELM, Flavour.KUSTOMIZE)


@check(
    "CRD-1",
    impact=Impact.READ_ONLY,
    source="if the separate KubeDescheduler CRD is served, its profile and field schema are checked independently",
)
def test_kubedescheduler_has_the_expected_shape(kubedescheduler: KubeDeschedulerFound) -> None:
    """mode, deschedulingIntervalSeconds, profiles and profileCustomizations have the expected shape."""
    _readable(kubedescheduler)
    for path, kind, values in SHAPE:
        found = kubedescheduler.field(path)
        assert found, found.evidence
        assert found.type == kind, f"{found.evidence}, wanted {kind}"
        missing = [v for v in values if v not in found.enum]
        assert not missing, f"{found.evidence}, wanted also {', '.join(missing)}"
    for path, kind in NEWER:
        found = kubedescheduler.field(path)
        assert not found or found.type == kind, f"{found.evidence}, wanted {kind}"


@check("CRD-2", level=Level.RECOMMENDED, impact=Impact.READ_ONLY, source="its profile and field schema are checked independently")
def test_a_profile_knows_kubevirt(kubedescheduler: KubeDeschedulerFound) -> None:
    """The profile enum has a KubeVirt-aware profile, or LongLifecycle with devEnableEvictionsInBackground."""
    _readable(kubedescheduler)
    profiles = kubedescheduler.field(".spec.profiles[*]")
    if any(p in profiles.enum for p in BACKGROUND_PROFILES):
        return
    switch = kubedescheduler.field(BACKGROUND)
    long_lived = LONG_LIFECYCLE in profiles.enum and bool(switch)
    wanted = f"{' or '.join(BACKGROUND_PROFILES)}, or {LONG_LIFECYCLE} with {BACKGROUND}"
    assert long_lived, f"{profiles.evidence}; wanted {wanted}; upgrade the operator"


@check(
    "CRD-3",
    level=Level.RECOMMENDED,
    impact=Impact.READ_ONLY,
    source="Without the feature gate, the 429 is logged as a failed eviction",
)
def test_an_instance_moves_vms_in_the_background(kubedescheduler: KubeDeschedulerFound, kubevirt: KubeVirtInstall) -> None:
    """An instance is set up for background evictions, and not left in Predictive mode."""
    _served(kubedescheduler)
    if kubedescheduler.instance is None:
        if kubedescheduler.instances_probe.presence is Presence.UNKNOWN:
            inconclusive(f"KubeDeschedulers could not be listed: {kubedescheduler.instances_probe.evidence}")
        not_applicable(f"there is no KubeDescheduler: {kubedescheduler.instances_probe.evidence}")
    where = kubedescheduler.where
    assert kubedescheduler.background, (
        f"{where}: profiles {kubedescheduler.profiles} without devEnableEvictionsInBackground: every 429 of {kubevirt.where} is "
        f"taken for a failed eviction; use {BACKGROUND_PROFILES[0]}, or set devEnableEvictionsInBackground"
    )
    mode = kubedescheduler.spec("mode") or "Predictive"
    assert mode == "Automatic", f"{where}: mode is {mode} (the default is Predictive): nothing is evicted; set mode: Automatic"


@check(
    "CRD-4",
    level=Level.INFORMATIONAL,
    impact=Impact.READ_ONLY,
    source="installs no descheduler CRD; there is no operator-level API to configure it through",
)
def test_no_kubedescheduler_acts_beside_another_descheduler(
    kubedescheduler: KubeDeschedulerFound, installation: Installation, evidence: Attach
) -> None:
    """Where the CRD exists beside a chart- or plugin-installed descheduler, it is not of that package and has no instance."""
    _served(kubedescheduler)
    found = installation.consumers.all
    consumer = next((w for w in found if w.flavour in APART), None)
    if consumer is None:
        own = next((w for w in found if w.flavour is Flavour.KDO), None)
        if own is None:
            not_applicable(f"no chart- or plugin-installed descheduler is here: {installation.consumers.probe.evidence}")
        evidence("probe", kubedescheduler.probe.feature, f"{kubedescheduler.where} has {own.where}; no other descheduler was found")
        return
    evidence("probe", kubedescheduler.probe.feature, f"{kubedescheduler.probe.evidence}; beside {consumer.where}")
    assert not kubedescheduler.brought_by(consumer.object), (
        f"{kubedescheduler.crd_probe.evidence}: it carries the labels of {consumer.where}, which no KubeDescheduler configures"
    )
    assert kubedescheduler.instance is None, (
        f"{kubedescheduler.where} configures nothing of {consumer.where}; "
        "with its operator running two deschedulers act on one cluster"
    )


def _served(found: KubeDeschedulerFound) -> None:
    if found.probe.presence is Presence.ABSENT:
        not_applicable(found.probe.evidence)
    if found.probe.presence is Presence.UNKNOWN:
        inconclusive(f"whether KubeDescheduler is served is unknown: {found.probe.evidence}")


def _readable(found: KubeDeschedulerFound) -> None:
    _served(found)
    if found.crd is None:
        inconclusive(f"the KubeDescheduler CRD cannot be read: {found.crd_probe.evidence}")
