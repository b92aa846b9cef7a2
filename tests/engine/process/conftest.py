from collections.abc import Iterator

import pytest

from tests.engine.fakeapi import FakeApi


@pytest.fixture
def api() -> Iterator[FakeApi]:
    server = FakeApi()
    yield server
    server.close()
