"""Schemas: what is pruned, defaulted and refused, in built-in and in custom resources; the vendored data is whole."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.embedded.api import registry, schema, structural
from fixtures.kube.resources import Obj

POD = "io.k8s.api.core.v1.Pod"


def pod(**spec: Any) -> tuple[Obj, schema.Findings]:
    return schema.builtin({"apiVersion": "v1", "kind": "Pod", "spec": spec}, POD, registry.schemas())


def test_every_builtin_kind_has_a_schema_with_its_kind() -> None:
    for served, _ in registry.builtins():
        assert served.definition, served.resource
        gvks = registry.schemas()[served.definition]["x-kubernetes-group-version-kind"]
        assert {"group": served.resource.group, "version": served.resource.version, "kind": served.resource.kind} in gvks


def test_vendored_schemas_are_what_the_script_makes() -> None:
    pytest.importorskip("kubernetes_validate")
    from fixtures.embedded.data import regenerate

    assert regenerate.make_schemas(registry.SCHEMA_VERSION) == registry.schemas()


def test_builtin_unknown_fields_and_nulls_are_dropped() -> None:
    cleaned, found = pod(containers=[{"name": "c", "imgae": "x", "image": None}], nodeNmae="n", nodeSelector=None)
    assert cleaned["spec"] == {"containers": [{"name": "c"}]}
    assert found.unknown == ["spec.containers[0].imgae", "spec.nodeNmae"]


def test_builtin_required_fields_are_not_enforced() -> None:
    assert pod() == ({"apiVersion": "v1", "kind": "Pod", "spec": {}}, schema.Findings())


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"containers": {}}, "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container"),
        ({"nodeName": 5}, "json: cannot unmarshal number into Go struct field PodSpec.spec.nodeName of type string"),
        ({"hostNetwork": "yes"}, "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool"),
        ({"priority": "high"}, "json: cannot unmarshal string into Go struct field PodSpec.spec.priority of type int32"),
        ({"affinity": "none"}, "json: cannot unmarshal string into Go struct field PodSpec.spec.affinity of type v1.Affinity"),
        (
            {"nodeSelector": ["a"]},
            "json: cannot unmarshal array into Go struct field PodSpec.spec.nodeSelector of type map[string]string",
        ),
        (
            {"containers": [{"resources": {"requests": {"cpu": "a lot"}}}]},
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ],
)
def test_builtin_type_mismatch_in_gos_words(spec: Obj, message: str) -> None:
    assert pod(**spec)[1].mismatch == message


@pytest.mark.parametrize("amount", ["100m", "1.5Gi", "1e3", ".5", "12", "-1", "5k"])
def test_builtin_quantities(amount: str) -> None:
    assert not pod(containers=[{"resources": {"requests": {"cpu": amount}}}])[1].mismatch


def test_builtin_numbers_as_quantities_become_text() -> None:
    cleaned, _ = pod(containers=[{"resources": {"requests": {"cpu": 2}}}])
    assert cleaned["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}


def custom(spec: Any, **properties: Any) -> tuple[Any, schema.Findings]:
    body = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties, "required": ["must"]}}}
    obj = {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n"}, "spec": spec}
    cleaned, found = structural.custom(obj, body)
    return cleaned.get("spec"), found


def test_custom_defaults_pruning_and_preserving() -> None:
    spec, found = custom(
        {"must": 1, "bogus": 2, "free": {"any": [1]}, "map": {"x": 1}, "port": "http"},
        must={"type": "integer"},
        free={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        map={"type": "object", "additionalProperties": {"type": "integer"}},
        port={"x-kubernetes-int-or-string": True},
        nested={"type": "object", "default": {}, "properties": {"deep": {"type": "string", "default": "d"}}},
    )
    assert spec == {"must": 1, "free": {"any": [1]}, "map": {"x": 1}, "port": "http", "nested": {"deep": "d"}}
    assert found.unknown == ["spec.bogus"]
    assert found.causes == []


@pytest.mark.parametrize(
    ("value", "rule", "complaint"),
    [
        ("x", {"type": "integer"}, 'Invalid value: "string": spec.must in body must be of type integer: "string"'),
        (1.5, {"type": "integer"}, 'Invalid value: "number": spec.must in body must be of type integer: "number"'),
        (None, {"type": "string"}, 'Invalid value: "null": spec.must in body must be of type string: "null"'),
        ("c", {"type": "string", "enum": ["a", "b"]}, 'Unsupported value: "c": supported values: "a", "b"'),
        ("bad", {"type": "string", "pattern": "^[0-9]+$"}, "Invalid value: \"bad\": spec.must in body should match '^[0-9]+$'"),
        ("ab", {"type": "string", "maxLength": 1}, 'Invalid value: "ab": spec.must in body should be at most 1 chars long'),
        (0, {"type": "integer", "minimum": 1}, "Invalid value: 0: spec.must in body should be greater than or equal to 1"),
        ([], {"type": "array", "minItems": 1}, "Invalid value: []: spec.must in body should have at least 1 items"),
        (
            {},
            {"x-kubernetes-int-or-string": True},
            'Invalid value: "object": spec.must in body must be of type integer,string: "object"',
        ),
    ],
)
def test_custom_violations_in_the_api_servers_words(value: Any, rule: Obj, complaint: str) -> None:
    _, found = custom({"must": value}, must=rule)
    assert [str(cause) for cause in found.causes] == [f"spec.must: {complaint}"]


def test_custom_required_and_nullable() -> None:
    _, found = custom({}, must={"type": "string"})
    assert [str(cause) for cause in found.causes] == ["spec.must: Required value"]
    spec, found = custom({"must": None}, must={"type": "string", "nullable": True})
    assert (spec, found.causes) == ({"must": None}, [])


def test_custom_name_may_be_constrained() -> None:
    meta = {"type": "object", "properties": {"name": {"type": "string", "pattern": "kubevirt-hyperconverged"}}}
    _, found = structural.custom({"metadata": {"name": "bad"}}, {"type": "object", "properties": {"metadata": meta}})
    text = "metadata.name: Invalid value: \"bad\": metadata.name in body should match 'kubevirt-hyperconverged'"
    assert [str(cause) for cause in found.causes] == [text]
