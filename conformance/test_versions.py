"""VER: which versions a result was found with."""

from __future__ import annotations

from fixtures.checks import Impact, check, inconclusive
from fixtures.cluster.api import Presence
from fixtures.cluster.discover.versions import KUBELET, VersionMatrix
from fixtures.run import Attach


@check(
    "VER-1",
    impact=Impact.READ_ONLY,
    source="Record the ACP release, Kubernetes server version, KubeVirt version, HCO version, and Descheduler plugin version"
    " with each run",
)
def test_every_version_is_known(versions: VersionMatrix, evidence: Attach) -> None:
    """Each product's version is read from the cluster, or the product is not installed; and whether the combination is verified."""
    evidence("versions", "version matrix", {r.product: {"value": r.value, "readFrom": r.read_from} for r in versions.rows})
    evidence("combination", "verified combinations", versions.combination)
    missing = [r for r in versions.unknown if r.product != KUBELET]
    nameless = [f"{r.product} ({r.read_from})" for r in missing if r.installed is Presence.PRESENT]
    assert not nameless, f"version unknown: {'; '.join(nameless)}; give it with --record, such as --record=acp=4.4"
    unseen = [f"{r.product} ({r.read_from})" for r in missing if r.installed is not Presence.PRESENT]
    if unseen:
        inconclusive(
            f"whether these are installed is unknown: {'; '.join(unseen)}; give a version with --record, such as --record=acp=4.4"
        )
