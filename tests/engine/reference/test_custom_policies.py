"""Eviction policies and balance plugins of one's own: the documented examples, run as they stand in the documentation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fixtures.engine.reference.explain import explain
from fixtures.engine.reference.plugins.api import BalancePlugin, EvictionPolicy
from fixtures.engine.reference.policy import PolicyError, load
from fixtures.engine.reference.policyfile.decoding import INT, struct
from tests.engine.reference.building import Bench, background, node, pod, text, vm

PAGE = Path(__file__).parents[3] / "docs" / "custom-eviction-policy.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def defined(source: str, name: str) -> Any:
    found: dict[str, Any] = {}
    exec(compile(source, str(PAGE), "exec"), found)  # noqa: S102 the page is ours
    return found[name]


@pytest.fixture
def calm() -> type[EvictionPolicy]:
    return defined(blocks("python")[0], "CalmMigrations")


@pytest.fixture
def drain() -> type[BalancePlugin]:
    return defined(blocks("python")[1], "DrainMarked")


def test_the_documented_policy_filters_and_vetoes(calm: type[EvictionPolicy]) -> None:
    policy = load(blocks("yaml")[0], plugins=[calm])
    pods = [vm(f"vm{i}", priority=i) for i in range(1, 8)] + [vm("big", memory="5Gi")]
    bench = Bench([node("n1"), node("n2", cpu="100", memory="100Gi")], pods, policy, answer=background)
    report = bench.cycle()
    assert report.requested == ["default/vm1", "default/vm2"]
    assert [(f.pod, f.checks) for f in report.passes[0].filtered] == [("default/big", "pod requests 5Gi, more than 4Gi")]
    vetoed = [line for line in bench.lines if line.message == "Pod eviction vetoed"]
    assert [str(line.get("pod")) for line in vetoed] == [f"default/vm{i}" for i in range(3, 8)]
    assert {line.get("checks") for line in vetoed} == {"2 evictions are under way"}


def test_the_documented_policy_explains_itself(calm: type[EvictionPolicy]) -> None:
    policy = load(blocks("yaml")[0], plugins=[calm])
    bench = Bench([node("n1", cpu="4"), node("n2")], [vm("big", memory="5Gi", cpu="3")], policy)
    (found,) = explain(bench.snapshot, policy)
    assert [(r.kind, r.text) for r in found.reasons] == [("filter", "pod requests 5Gi, more than 4Gi")]


def test_bad_arguments_end_the_start(calm: type[EvictionPolicy]) -> None:
    with pytest.raises(PolicyError, match="in profile calm: parallel must not be negative"):
        load(blocks("yaml")[0].replace("parallel: 2", "parallel: -2"), plugins=[calm])


def test_the_documented_nominator_drains(drain: type[BalancePlugin]) -> None:
    policy = load(text(plugin="DrainMarked", args="{label: drain}"), plugins=[drain])
    marked = node("n1")
    marked["metadata"]["labels"]["drain"] = ""
    bench = Bench([marked, node("n2")], [pod("a"), pod("b"), pod("c", on="n2")], policy)
    report = bench.cycle()
    assert bench.port.asked == ["a"]
    assert bench.port.bodies[0]["metadata"]["annotations"]["reason"] == "triggered by p/DrainMarked: node is marked"
    assert report.passes[0].summary == {"extensionPoint": "Balance", "evictedPods": 1, "evictionRequests": 0}


def test_a_failing_plugin_is_told_and_others_go_on() -> None:
    class Failing(BalancePlugin):
        name = "Failing"

        def balance(self, nodes: list[dict[str, Any]]) -> str | None:
            return "out of luck"

    document = text(plugins="").replace("enabled: [LowNodeUtilization]", "enabled: [Failing, LowNodeUtilization]")
    document = document.replace("pluginConfig:\n", "pluginConfig:\n  - {name: Failing}\n")
    bench = Bench([node("n1"), node("n2")], [pod(f"p{i}") for i in range(8)], load(document, plugins=[Failing]))
    report = bench.cycle()
    assert report.plugin_errors == ['plugin "Failing" finished with error: out of luck']
    assert report.total_evicted


def test_typed_arguments_are_decoded_strictly() -> None:
    class Typed(EvictionPolicy):
        name = "Typed"
        args_type = struct("own.TypedArgs", limit=INT)

    document = text().replace("pluginConfig:\n", "pluginConfig:\n  - {name: Typed, args: {limit: 1, limits: 2}}\n")
    with pytest.raises(PolicyError, match='strict decoding error: unknown field "limits"'):
        load(document, plugins=[Typed])
    with pytest.raises(PolicyError, match=r"Go struct field TypedArgs\.limit of type int"):
        load(document.replace("limit: 1, limits: 2", "limit: x"), plugins=[Typed])


def test_an_unregistered_class_stays_unknown(calm: type[EvictionPolicy]) -> None:
    with pytest.raises(PolicyError, match="plugin CalmMigrations in pluginConfig not registered"):
        load(blocks("yaml")[0])


def test_their_lines_are_known_to_the_log_reader(calm: type[EvictionPolicy]) -> None:
    policy = load(blocks("yaml")[0], plugins=[calm])
    pods = [vm(f"vm{i}", priority=i) for i in range(1, 8)] + [vm("big", memory="5Gi")]
    report = Bench([node("n1"), node("n2", cpu="100")], pods, policy, answer=background).cycle()
    assert report.unparsed == []
