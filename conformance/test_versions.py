"""VER: which versions a result was found with."""

from __future__ import annotations

from fixtures.checks import Impact, check
from fixtures.cluster.discover.versions import UNKNOWN, VersionMatrix
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
    unknown = [f"{r.product} ({r.read_from})" for r in versions.rows if r.value == UNKNOWN]
    assert not unknown, f"version unknown: {'; '.join(unknown)}; give it with --record product=version"
