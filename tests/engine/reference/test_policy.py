"""Policies are read with the original's strictness, laxness and words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.engine.reference.behaviour import KNOWN, behaviour, table
from fixtures.engine.reference.plugins.api import EvictionPolicy
from fixtures.engine.reference.policy import Policy, PolicyError, load
from tests.engine.reference.building import text

DECODING = 'failed decoding descheduler\'s policy config "PATH": '
HEAD = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"
CASES = yaml.safe_load((Path(__file__).parent / "policy_errors.yaml").read_text(encoding="utf-8"))


def refused(document: str | bytes, **kwargs: Any) -> str:
    with pytest.raises(PolicyError) as caught:
        load(document, **kwargs)
    return caught.value.text


@pytest.mark.parametrize(("document", "message"), [(c["document"], c["message"]) for c in CASES["decoding"]])
def test_decoding_errors(document: Any, message: str) -> None:
    found = document if isinstance(document, str) else bytes.fromhex(document["hex"])
    assert refused(found) == DECODING + message


@pytest.mark.parametrize(
    "document",
    [
        "",
        "---",
        "null",
        HEAD,
        HEAD + "nonsense: 1\nprofiles: null",
        HEAD + "nodeSelector: null\nmaxNoOfPodsToEvictTotal: 5.0",
        "kind: DeschedulerPolicy\nprofiles: 7",
        "APIVERSION: descheduler/v1alpha2\nprofiles: []",
        '{"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": []}',
        HEAD + "profiles: []\n---\napiVersion: nonsense",
        HEAD + "maxNoOfPodsToEvictTotal: x\nmaxNoOfPodsToEvictTotal: 5",
    ],
)
def test_accepted(document: str) -> None:
    assert isinstance(load(document), Policy)


def test_a_document_without_api_version_lands_in_the_internal_type() -> None:
    assert load("maxNoOfPodsToEvictTotal: 5").limits.total is None
    assert load("MaxNoOfPodsToEvictTotal: 5").limits.total == 5
    assert refused("MaxNoOfPodsToEvictTotal: x").endswith("DeschedulerPolicy.MaxNoOfPodsToEvictTotal of type uint")


def test_duplicate_keys_in_json_arguments_are_refused() -> None:
    document = (
        '{"apiVersion":"descheduler/v1alpha2","kind":"DeschedulerPolicy","profiles":[{"name":"p","pluginConfig":'
        '[{"name":"DefaultEvictor","args":{"nodeFit":true,"nodeFit":false}}]}]}'
    )
    assert refused(document) == DECODING + 'strict decoding error: duplicate field "nodeFit"'


def test_yaml_is_yaml_1_1() -> None:
    found = load(HEAD + "maxNoOfPodsToEvictTotal: 010\nmaxNoOfPodsToEvictPerNode: 0x10\nevictionFailureEventNotification: on")
    assert (found.limits.total, found.limits.node, found.failure_events) == (8, 16, True)


def test_merge_keys_and_anchors() -> None:
    document = text(args="{<<: &a {thresholds: {cpu: 20}}, targetThresholds: {cpu: 50}}")
    assert load(document).profiles[0].configs["LowNodeUtilization"]["thresholds"] == {"cpu": 20.0}


@pytest.mark.parametrize(("parts", "message"), [(c["parts"], c["message"]) for c in CASES["validation"]])
def test_validation_errors(parts: dict[str, str], message: str) -> None:
    assert refused(text(**parts)) == message


@pytest.mark.parametrize(("parts", "message"), [(c["parts"], c["message"]) for c in CASES["construction"]])
def test_construction_errors_end_the_start_since_035(parts: dict[str, str], message: str) -> None:
    assert refused(text(**parts)) == f'failed to create new descheduler: unable to create "p" profile: {message}'
    assert load(text(**parts), version="0.34.0").profiles


def test_releases_differ() -> None:
    new = text()
    assert 'unknown field "podProtections"' in refused(new, version="0.33.0")
    assert "evictionLimits" in refused(text(evictor="{}", args="{evictionLimits: {node: 1}}"), version="0.32.2")
    assert "scheme.go:110" in refused("apiVersion: x/y", version="0.34.0")
    both = text(evictor="{priorityThreshold: {value: 1, name: a}, minReplicas: 1}")
    assert refused(both).endswith("only one of priorityThreshold fields can be set")
    assert refused(both, version="0.33.0").endswith("fields can be set, got &TypeMeta{Kind:,APIVersion:,}")
    secure = "metricsProviders: [{source: Prometheus, prometheus: {url: 'http://a'}}]"
    assert refused(text(evictor="{}", top=secure), version="0.33.0") == 'prometheus URL\'s scheme is not https, got "http" instead'
    assert load(text(top=secure)).metrics == {"Prometheus"}
    old = HEAD + "EvictionFailureEventNotification: true"
    assert load(old, version="0.32.2").failure_events
    assert not load(old).failure_events


def test_one_validation_error_before_034_all_since() -> None:
    parts = {"plugin": "RemovePodsHavingTooManyRestarts", "args": "{states: [X]}", "evictor": "{}"}
    assert refused(text(**parts), version="0.33.0") == "in profile p: invalid PodsHavingTooManyRestarts threshold"


def test_priority_classes() -> None:
    document = text(evictor="{priorityThreshold: {name: vip}}")
    threshold = load(document, priority_class={"vip": 7}.get).profiles[0].configs["DefaultEvictor"]["priorityThreshold"]
    assert threshold == {"value": 7}
    with pytest.raises(PolicyError) as caught:
        load(document)
    missing = 'unable to get priority value from the priority class: priorityclasses.scheduling.k8s.io "vip" not found'
    assert caught.value.text == missing
    assert [line.message for line in caught.value.lines] == [f"{missing}Failed to get threshold priority from args"]
    goes_on = load(document.replace("priorityThreshold", "priorityThreshold"), version="0.32.2")
    assert goes_on.profiles[0].configs["DefaultEvictor"]["priorityThreshold"] == {"value": 0}


def test_defaulting_puts_the_evictor_first() -> None:
    found = load(HEAD + "profiles: [{name: p, plugins: {filter: {enabled: []}}}]").profiles[0]
    assert found.enabled["filter"] == found.enabled["preEvictionFilter"] == ["DefaultEvictor"]
    assert found.configs == {"DefaultEvictor": {"priorityThreshold": {"value": 2_000_000_000}}}


def test_of_two_configurations_the_first_counts_and_both_are_checked() -> None:
    args = "{name: RemoveDuplicates, args: {excludeOwnerKinds: [%s]}}"
    twice = HEAD + f"profiles: [{{name: p, pluginConfig: [{args % 'a'}, {args % 'b'}]}}]"
    assert load(twice).profiles[0].configs["RemoveDuplicates"] == {"excludeOwnerKinds": ["a"]}
    assert "not registered" in refused(HEAD + f"profiles: [{{name: p, pluginConfig: [{args % 'a'}, {{name: Nope}}]}}]")


def test_the_shipped_default_policy_loads_everywhere() -> None:
    shipped = (
        HEAD
        + """
profiles:
- name: default
  pluginConfig:
  - name: DefaultEvictor
    args: {ignorePvcPods: true, evictLocalStoragePods: true}
  - {name: RemoveDuplicates}
  - name: RemovePodsHavingTooManyRestarts
    args: {podRestartThreshold: 100, includingInitContainers: true}
  - name: LowNodeUtilization
    args: {thresholds: {cpu: 20, memory: 20, pods: 20}, targetThresholds: {cpu: 50, memory: 50, pods: 50}}
  plugins:
    balance: {enabled: [RemoveDuplicates, LowNodeUtilization]}
    deschedule: {enabled: [RemovePodsHavingTooManyRestarts]}
"""
    )
    for minor in KNOWN:
        assert len(load(shipped, version=f"0.{minor}.0").profiles) == 1


@pytest.mark.parametrize("version", ["0.31.0", "0.37.0", "1.0", "x", ""])
def test_unknown_releases_are_refused(version: str) -> None:
    with pytest.raises(ValueError, match=r"known: 0\.32 to 0\.36"):
        load("", version=version)


def test_versions_have_many_spellings() -> None:
    assert {behaviour(v).minor for v in ("0.36.0", "v0.36.0", "0.36", "v0.36.0-5", " 0.36.1 ")} == {36}


def test_the_table_has_a_source_for_every_switch() -> None:
    assert all(source for _, source, _ in table())
    assert all(rows[0][0] == "0.32" for _, _, rows in table())


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.binary(max_size=120))
def test_any_bytes_are_a_policy_or_refused(data: bytes) -> None:
    for document in (data, HEAD.encode() + data):
        try:
            load(document)
        except PolicyError:
            continue


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        "nodeFit",
        "minReplicas",
        "minPodAge",
        "labelSelector",
        "matchLabels",
        "matchExpressions",
        "operator",
        "key",
        "values",
        "priorityThreshold",
        "value",
        "name",
        "podProtections",
        "extraEnabled",
        "defaultDisabled",
        "config",
        "PodsWithPVC",
        "protectedStorageClasses",
        "thresholds",
        "targetThresholds",
        "cpu",
        "memory",
        "numberOfNodes",
        "evictableNamespaces",
        "exclude",
        "evictionLimits",
        "node",
        "metricsUtilization",
        "source",
        "prometheus",
        "noEvictionPolicy",
    ]
)
PLUGINS = ["DefaultEvictor", "LowNodeUtilization", "HighNodeUtilization", "PodLifeTime"]
ARGS = st.recursive(VALUES, lambda inner: st.dictionaries(KEYS, inner, max_size=4) | st.lists(inner, max_size=3), max_leaves=10)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    ARGS, st.sampled_from(["DefaultEvictor", "LowNodeUtilization", "HighNodeUtilization", "PodLifeTime"]), st.sampled_from(KNOWN)
)
def test_any_arguments_are_accepted_or_refused(args: Any, plugin: str, minor: int) -> None:
    policy = {"apiVersion": "descheduler/v1alpha2", "profiles": [{"name": "p", "pluginConfig": [{"name": plugin, "args": args}]}]}
    document = json.dumps(policy)
    try:
        load(document if minor % 2 else " #\n" + document, version=f"0.{minor}.0")
    except PolicyError:
        return


@pytest.mark.parametrize(
    "document",
    [
        "[" * 5000,
        "{" * 3000,
        '{"a":' * 3000 + "1" + "}" * 3000,
        "a: " + "[" * 400 + "]" * 400,
        "a: &a [x]\n" + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(12)),
        "a: &a [*a]",
        "x: &x {<<: *x}",
        "<<: 5",
        "? [a]\n: b",
        "a: .inf",
        "a: !!int x",
        "a: !custom {b: 1}",
        "9" * 5000,
        "a: 1e400",
    ],
    ids=lambda d: d[:12],
)
def test_hostile_documents_are_answered_quickly(document: str) -> None:
    try:
        load(document)
    except PolicyError as error:
        assert error.text.startswith(DECODING)  # noqa: PT017 both outcomes are fine, a traceback is not


def test_deep_arguments_of_a_plugin_of_ones_own() -> None:
    class Own(EvictionPolicy):
        name = "Own"

    deep = '{"a":' * 450 + "1" + "}" * 450
    document = json.dumps({"apiVersion": "descheduler/v1alpha2", "profiles": [{"pluginConfig": [{"name": "Own", "args": 0}]}]})
    try:
        load(document.replace('"args": 0', f'"args": {deep}'), plugins=[Own])
    except PolicyError as error:
        assert "exceeded max depth" in error.text  # noqa: PT017 how deep is too deep is the interpreter's business


ANSWERS = json.loads((Path(__file__).parent / "loader_answers.json").read_text(encoding="utf-8"))["policies"]


@pytest.mark.parametrize("case", ANSWERS, ids=[str(i) for i in range(len(ANSWERS))])
def test_the_loader_of_0360_answered_the_same(case: dict[str, str]) -> None:
    """What descheduler 0.36.0's LoadPolicyConfig said to each policy; it does not construct profiles."""
    try:
        load(case["policy"], priority_class={"vip": 7}.get)
        found = ""
    except PolicyError as error:
        found = "" if error.text.startswith("failed to create new descheduler") else error.text
    assert sorted(found) == sorted(case["error"])  # aggregated errors come in random order from Go's maps
