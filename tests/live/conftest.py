"""An embedded cluster that is certified from outside, by kubeconfig, as any live cluster; one a module, never written to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fixtures.cluster.embedded import EmbeddedUnderTest, start_embedded
from fixtures.embedded.api.audit import Entry
from fixtures.options import Settings
from tests.certifying import Certified, certify


@dataclass(frozen=True)
class Live:
    """``asked`` and ``asked_global``: what the last certification asked of the two API servers."""

    cluster: EmbeddedUnderTest

    def certify(self, folder: Path, *options: str) -> Certified:
        servers = [self.cluster.world.server, self.cluster.world.global_server]
        for server in servers:
            if server is not None:
                server.audit.entries.clear()
        return certify(folder, "--cluster=live", f"--cluster-kubeconfig={self.cluster.kubeconfig}", *options)

    @property
    def asked(self) -> list[Entry]:
        return list(self.cluster.world.server.audit.entries)

    @property
    def asked_global(self) -> list[Entry]:
        server = self.cluster.world.global_server
        return [] if server is None else list(server.audit.entries)


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    cluster = start_embedded(Settings())
    yield Live(cluster)
    cluster.close()
