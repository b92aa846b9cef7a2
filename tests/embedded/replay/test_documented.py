"""What the page about the embedded cluster lists is what there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures import versions
from fixtures.embedded import faults
from tests.embedded.replay.test_replays import DIFFERENCES

PAGE = (Path(__file__).parents[3] / "docs" / "embedded-cluster.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", faults.names())
def test_every_fault_is_listed_as_it_describes_itself(name: str) -> None:
    written, _, says = faults.load(name).says.partition(": ")
    assert f"| `{written}`: {says} |" in PAGE
    assert all(check in PAGE for check in faults.load(name).fails)


def test_every_story_that_differs_is_listed() -> None:
    for story, facts in DIFFERENCES.items():
        reasons = {why.partition(";")[0].partition(":")[0] for why in facts.values()}
        assert PAGE.count(f"\n| {story[0]} | ") >= len(reasons)


def test_the_versions_told_exist() -> None:
    for lookup, first, last in (
        (versions.kubevirt, "1.3.0", "1.9.0"),
        (versions.descheduler, "0.32.0", "0.36.0"),
        (versions.hco, "1.13", "1.19"),
        (versions.kubernetes, "1.30", "1.37"),
    ):
        lookup(first)
        lookup(last)
