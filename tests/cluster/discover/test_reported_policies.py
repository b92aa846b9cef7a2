"""Policies from public bug reports: what the release says of them, and what it drops without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fixtures.cluster.discover import find_installation
from fixtures.cluster.discover.enginepolicy import EnginePolicy, engine_policy
from fixtures.cluster.discover.policylint import dropped
from fixtures.cluster.discover.versions import find_versions
from fixtures.kube.resources import Obj
from tests.cluster.paper import Paper, load

REPORTED = yaml.safe_load((Path(__file__).parent / "data" / "reported.yaml").read_text(encoding="utf-8"))["policies"]
#: A warning as it was put in the report, and as it is put here.
WORDS = {
    "ignorePvcPods at top level has no effect": "ignorePvcPods is not a field and is ignored (v1alpha1;",
    "strategies is ignored in v1alpha2": "strategies is not a field and is ignored (v1alpha1;",
    "no plugin is enabled": "does nothing",
    "namespaces at top level has no effect": "namespaces is not a field and is ignored",
    "priorityThreshold has no effect with evictSystemCriticalPods": "args.priorityThreshold has no effect",
}
#: Advice about what a policy means (test_policyadvice.py); nothing of it is dropped.
ADVICE = {"prefer-no-eviction is not binding", "numberOfNodes 1 needs two underutilized nodes"}


def as_run(policy: Obj | str, image: str = "registry.k8s.io/descheduler/descheduler:v0.36.0", **paper: Any) -> EnginePolicy:
    objects = {o["kind"]: o for o in load("chart-cronjob.yaml")}
    text = policy if isinstance(policy, str) else yaml.safe_dump(policy)
    objects["ConfigMap"]["data"]["policy.yaml"] = text
    pod = objects["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    pod["containers"][0]["image"] = image
    cluster: Any = Paper(*objects.values(), **{"served": ["priorityclasses.scheduling.k8s.io"], **paper})
    installation = find_installation(cluster)
    return engine_policy(cluster, installation, find_versions(cluster, {}, installation=installation))


@pytest.mark.parametrize("case", REPORTED, ids=lambda c: c["id"])
def test_a_reported_policy_is_refused_exactly_where_the_original_refuses_it(case: Obj) -> None:
    expect, found = case["expect"], as_run(case["policy"])
    assert not found.unknown
    refused = expect.get("load") == "error" or expect.get("build") == "error"
    assert bool(found.refusal) is refused, found.refusal
    assert expect.get("error_contains", "") in found.refusal


@pytest.mark.parametrize(
    "case", [c for c in REPORTED if c["expect"].get("by_version", {}).get(">=0.33") == "ok"], ids=lambda c: c["id"]
)
def test_what_a_newer_release_knows_the_older_one_refuses(case: Obj) -> None:
    assert "unknown field" in as_run(case["policy"], "registry.k8s.io/descheduler/descheduler:v0.32.2").refusal
    assert "unknown field" not in as_run(case["policy"], "registry.k8s.io/descheduler/descheduler:v0.33.0").refusal


@pytest.mark.parametrize("case", [c for c in REPORTED if c["expect"].get("warn")], ids=lambda c: c["id"])
def test_what_is_dropped_without_a_word_is_pointed_out(case: Obj) -> None:
    found = [str(d) for d in dropped(yaml.safe_dump(case["policy"]), "0.36.0")]
    for warning in set(case["expect"]["warn"]) - ADVICE:
        assert any(WORDS.get(warning, warning) in d for d in found), found


@pytest.mark.parametrize(
    ("image", "outcome"),
    [
        ("registry.k8s.io/descheduler/descheduler:v0.36.0", "refused"),
        ("quay.io/vendor/descheduler:v0.36.0", "foreign"),
    ],
)
def test_a_plugin_of_another_build_is_refused_by_upstream_only(image: str, outcome: str) -> None:
    policy = next(c for c in REPORTED if c["id"] == "P11.1")["policy"]
    found = as_run(policy, image)
    assert ("refused" if found.refusal else "foreign" if found.foreign else "") == outcome
    if outcome == "foreign":
        assert found.foreign == ("KubevirtMigrationAware",)


def test_the_rest_of_a_policy_with_a_foreign_plugin_is_validated_all_the_same() -> None:
    policy = next(c for c in REPORTED if c["id"] == "P11.1")["policy"]
    policy["profiles"][0]["pluginConfig"].append({"name": "RemoveDuplicates", "args": {"spelt": "wrong"}})
    assert 'unknown field "spelt"' in as_run(policy, "quay.io/vendor/descheduler:v0.36.0").refusal


def test_a_misspelt_plugin_is_no_foreign_one() -> None:
    policy = {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "profiles": [{"name": "p", "pluginConfig": [{"name": "LowNodeUtilisation", "args": {}}]}],
    }
    found = as_run(policy, "quay.io/vendor/descheduler:v0.36.0")
    assert found.refusal == "in profile p: plugin LowNodeUtilisation in pluginConfig not registered"


@pytest.mark.parametrize("tag", ["v0.31.0", "v9.9.9", "latest"])
def test_of_an_unknown_release_nothing_is_claimed(tag: str) -> None:
    found = as_run("profiles: []", f"registry.k8s.io/descheduler/descheduler:{tag}")
    assert found.unknown
    assert not found.refusal
    assert found.policy is None


def test_a_priority_class_that_may_not_be_read_leaves_it_open() -> None:
    policy = next(c for c in REPORTED if c["id"] == "A15.3")["policy"]
    found = as_run(policy, denied=["priorityclasses.scheduling.k8s.io"])
    assert "is unknown" in found.unknown
    assert not found.refusal


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "\x00", "a: " + "[" * 5000, "- 1\n- 2", "a: &a [*a]", "profiles: {a: b}", "plugins: 1"]
)
def test_hostile_texts_are_no_traceback(text: str) -> None:
    assert isinstance(dropped(text, "0.36.0"), list)
    as_run(text)
