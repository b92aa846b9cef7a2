"""Embedded clusters for the tests that need HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fixtures.embedded.cluster import EmbeddedCluster
from tests.embedded.controllers.rig import Rig


@pytest.fixture(autouse=True)
def no_controller_crashes() -> Iterator[None]:
    """The project's own controllers get through every test without an exception."""
    Rig.made.clear()
    yield
    assert [c for rig in Rig.made for c in rig.manager.crashes if c.controller != "broken"] == []


@pytest.fixture
def embedded() -> Iterator[Callable[..., EmbeddedCluster]]:
    """Starts embedded clusters and stops them at the end."""
    started: list[EmbeddedCluster] = []

    def start(**options: Any) -> EmbeddedCluster:
        started.append(EmbeddedCluster(**options).start())
        return started[-1]

    yield start
    for cluster in started:
        cluster.stop()
        servers = [cluster.server, *([cluster.global_server] if cluster.global_server else [])]
        assert cluster.manager.crashes == []
        assert [s.crashes for s in servers] == [[]] * len(servers)
