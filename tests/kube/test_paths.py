"""Field paths: kubectl's dialect in, exactly one value or a message out."""

import shutil
import subprocess
from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fixtures.kube.paths import IncompatibleTypes, Match, NotOneMatch, PathError, field, has, matches, one, shown

VMI: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "vm-1", "annotations": {"kubevirt.io/eviction-source": "descheduler"}},
    "data": {"policy.yaml": "profiles: []"},
    "status": {
        "nodeName": "worker-a",
        "empty": None,
        "conditions": [
            {"type": "LiveMigratable", "status": "True"},
            {"type": "Ready"},
            {"type": "Paused", "status": "False", "count": 3, "seen": True},
        ],
    },
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("{.status.nodeName}", "worker-a"),
        (".status.nodeName", "worker-a"),
        ("status.nodeName", "worker-a"),
        ("{$.status.nodeName}", "worker-a"),
        ("{@.status.nodeName}", "worker-a"),
        ("{.data.policy\\.yaml}", "profiles: []"),
        ("{.data['policy\\.yaml']}", "profiles: []"),
        ("{.metadata.annotations.kubevirt\\.io/eviction-source}", "descheduler"),
        ('{.status.conditions[?(@.type=="LiveMigratable")].status}', "True"),
        ("{.status.conditions[?(@.type=='LiveMigratable')].status}", "True"),
        ("{.status.conditions[?(@.count>2)].type}", "Paused"),
        ("{.status.conditions[?(@.count)].type}", "Paused"),
        ("{.status.conditions[?(@.seen==true)].type}", "Paused"),
        ("{.status.conditions[-1].count}", 3),
        ("{.status.conditions[1:2].type}", "Ready"),
        ("{.status.empty}", None),
    ],
)
def test_one_value(path: str, value: object) -> None:
    assert one(VMI, path) == value


def test_an_item_without_the_field_is_not_unequal() -> None:
    assert [m.value for m in matches(VMI, "{.status.conditions[?(@.status!='True')].type}")] == ["Paused"]


def test_matches_carry_their_place_in_kubectls_dialect() -> None:
    assert matches(VMI, "{.status.conditions[*].count}") == [Match("{.status.conditions[2].count}", 3)]
    assert matches(VMI, "data.policy\\.yaml")[0].path == "{.data.policy\\.yaml}"


def test_nowhere_says_how_far_the_path_exists() -> None:
    with pytest.raises(NotOneMatch) as caught:
        one(VMI, "status.evacuationNodeName", of="VMI demo/vm-1")
    text = str(caught.value)
    assert text == "{.status.evacuationNodeName} of VMI demo/vm-1 leads nowhere: {.status} has only conditions, empty, nodeName"
    with pytest.raises(NotOneMatch, match="the top has only apiVersion, data"):
        one(VMI, "{.spec}")


def test_several_places_are_listed() -> None:
    with pytest.raises(NotOneMatch) as caught:
        one(VMI, "{..type}")
    assert "{..type} of the object leads to 3 places, wanted one: {.status.conditions[0].type} = 'Live" in str(caught.value)
    assert len(caught.value.found) == 3


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("", "is empty"),
        ("{}", "is empty"),
        ("{.a}{.b}", "give one path"),
        ("{range .items[*]}{.a}{end}", "give one path"),
        ("{.a..}", "field name is missing"),
        ("{.a[}", "is not closed"),
        ("{.a[x]}", "no index, slice"),
        ("{.a['policy.yaml']}", "escape the dots"),
        ("{.a[0:2:0]}", "is 0"),
        ("{.c[?(@.type==Ready)]}", "no single quoted text"),
        ('{.c[?(@.type=="a" && @.b=="c")]}', "neither && nor"),
        ("{.c[?(@.type=~'a')]}", "neither @.field nor"),
        ("{.c[?(type=='a')]}", "neither @.field nor"),
        ("{.c[?@.type]}", "a filter is written"),
        ("{.a\\\\b}", "no field name"),
        ("." + "a" * 1000, "longest"),
    ],
)
def test_what_kubectl_does_not_take_is_rejected(path: str, says: str) -> None:
    with pytest.raises(PathError) as caught:
        one(VMI, path)
    assert says in str(caught.value)


def test_comparing_different_types_stops() -> None:
    with pytest.raises(IncompatibleTypes, match=r"compares \{.status.conditions\[2\].count\} = 3 with a text"):
        has(VMI, '{.status.conditions[?(@.count=="3")].type}')


def test_shown_and_field_make_paths_users_can_paste() -> None:
    assert shown("spec.evictionStrategy") == "{.spec.evictionStrategy}"
    assert shown("{.spec}") == "{.spec}"
    assert field("data", "policy.yaml") == ".data.policy\\.yaml"
    assert one(VMI, field("data", "policy.yaml")) == "profiles: []"


names = st.text(st.characters(exclude_characters="\\'\"{}[]*` \t\n", exclude_categories=("C", "Z")), min_size=1, max_size=12)


@given(st.lists(names, min_size=1, max_size=4), st.integers())
def test_any_field_names_lead_to_their_value(path: list[str], value: int) -> None:
    obj: Any = value
    for name in reversed(path):
        obj = {name: obj, name + "x": None}
    assert one(obj, field(*path)) == value


wire = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


@given(wire, st.text(st.sampled_from("abc.[]()?@*'\"=!<>012:-,{}$\\ ") | st.characters(), max_size=24))
def test_any_text_gives_a_value_or_a_message(obj: object, path: str) -> None:
    with suppress(PathError, NotOneMatch, IncompatibleTypes):
        one(obj, path)


STEPS = [".a", ".b", "..c", "[0]", "[-1]", "[*]", ".*", "[0:1]", "[?(@.a)]", "[?(@.a!=1)]", "[0,1]"]


@given(wire, st.lists(st.sampled_from(STEPS), max_size=4))
def test_any_sound_path_gives_matches_or_a_message(obj: object, steps: list[str]) -> None:
    with suppress(IncompatibleTypes):
        assert all(match.path.startswith("{") for match in matches(obj, "$" + "".join(steps) if steps else "."))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on PATH")
@pytest.mark.parametrize(
    "path",
    [
        "{.status.nodeName}",
        "{.data.policy\\.yaml}",
        "{.data['policy\\.yaml']}",
        '{.status.conditions[?(@.type=="LiveMigratable")].status}',
        "{.status.conditions[?(@.status!='True')].type}",
        "{.status.conditions[?(@.count)].type}",
        "{.status.conditions[-1].type}",
        "{.status.conditions[1:2].type}",
        "{$.status.nodeName}",
    ],
)
def test_kubectl_reads_the_same(path: str, tmp_path: Any) -> None:
    file = tmp_path / "vmi.yaml"
    file.write_text(yaml.safe_dump(VMI))
    command = ["kubectl", "label", "--local", "-f", str(file), "a=b", "-o", f"jsonpath={path}"]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    assert printed == one(VMI, path)
