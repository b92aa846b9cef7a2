from collections.abc import Iterator

import pytest

from fixtures.cluster.client import KubeCluster
from tests.cluster.fake import FakeServer, client, serving


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with serving() as running:
        yield running


@pytest.fixture
def cluster(server: FakeServer) -> Iterator[KubeCluster]:
    made = client(server.url)
    yield made
    made.close()
