"""Selectors match and complain as apimachinery's do."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.kube.selectors import EVERYTHING, NOTHING, SelectorError, from_map, label_selector, parse

LABELS = {"app": "web", "tier": "3", "empty": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app", True),
        ("!app", False),
        ("!other", True),
        ("app=web", True),
        ("app==web,tier=3", True),
        ("app!=web", False),
        ("other!=x", True),
        ("app in (db,web)", True),
        ("app notin (db,web)", False),
        ("other notin (x)", True),
        ("tier>2", True),
        ("tier<3", False),
        ("app>1", False),
        ("empty=", True),
        ("empty in ()", True),
        (" app = web , tier in ( 3 ) ", True),
        ("in in (in)", False),
    ],
)
def test_matching(text: str, matches: bool) -> None:
    assert parse(text).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("a=b,", "found '', expected: identifier after ','"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a=!", "unable to parse requirement: found '!', expected: identifier"),
        (
            "a>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            "a/b/c",
            'unable to parse requirement: <nil>: Invalid value: "a/b/c": a valid label key must consist of alphanumeric'
            " characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',"
            "  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS"
            " subdomain prefix and '/' (e.g. 'example.com/MyName')",
        ),
    ],
)
def test_messages(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse(text)
    assert str(caught.value) == message


def test_object_form() -> None:
    selector = label_selector(
        {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["4"]}]}
    )
    assert selector.matches(LABELS)
    assert not selector.matches({"app": "web", "tier": "4"})
    assert label_selector(None) == NOTHING
    assert label_selector({}) == EVERYTHING
    assert not NOTHING.matches(LABELS)
    assert from_map({"app": "web"}).matches(LABELS)


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ({"matchExpressions": [{"key": "a", "operator": "Is"}]}, '"Is" is not a valid label selector operator'),
        (
            {"matchExpressions": [{"key": "a", "operator": "In", "values": []}]},
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]},
            'values: Invalid value: ["b"]: values set must be empty for exists and does not exist',
        ),
    ],
)
def test_object_messages(selector: dict[str, object], message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        label_selector(selector)
    assert str(caught.value) == message


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text(alphabet="ab=!(),<> in\tnotin/.-\0é", max_size=25))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        parse(text).matches(LABELS)
    except SelectorError:
        return
