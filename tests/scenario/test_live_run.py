"""The suite as on somebody else's cluster: by kubeconfig, over HTTPS, everything allowed; afterwards nothing has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.cluster.embedded import write_private
from tests.certifying import certify
from tests.scenario import cases

pytestmark = pytest.mark.slow
#: As `serve` runs: a watch on a busy machine may lag 0.2 s, which is 2 s here, before causes seem to come after effects.
PACE = 10.0


def test_a_live_cluster_is_certified_and_left_as_it_was(tmp_path: Path) -> None:
    cluster = cases.start()
    try:
        write_private(tmp_path / "kubeconfig", cluster.world.kubeconfig("admin"))
        before = cases.footprint(cluster)
        cluster.world.clock.run_scaled(PACE)
        options = ["--cluster=live", f"--cluster-kubeconfig={tmp_path}/kubeconfig", "--allow=disruptive"]
        found = certify(tmp_path / "out", *options, "--check=POL-2,REN-2,INT-1,INT-4,INT-5,INT-6,ACP-2,MIG")
        cluster.world.clock.stop_scaled()
        assert found.those("failed", "skipped", "inconclusive") == set(), found.output
        assert found.certificate["verdict"]["text"] == "conformant (live-migration, simulated)"
        assert found.those("passed") >= {"MIG-1", "MIG-7", "MIG-12", "MIG-13", "ACP-2", "INT-5"}
        assert cases.footprint(cluster) == before
    finally:
        cluster.close()
