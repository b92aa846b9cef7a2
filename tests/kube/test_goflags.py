"""Command lines are read as Go's pflag reads them, with its messages."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.kube import goflags
from fixtures.kube.descheduler_flags import FLAGS, background_on, gate_on, parse_feature_gates
from fixtures.kube.goflags import FlagError, HelpWanted

GATE = "EvictionsInBackground"


@pytest.mark.parametrize(
    ("args", "values"),
    [
        (["--v=3"], {"v": 3}),
        (["--v", "3"], {"v": 3}),
        (["-v", "3"], {"v": 3}),
        (["-v3"], {"v": 3}),
        (["-v=3"], {"v": 3}),
        (["-v", "3", "--v=4"], {"v": 4}),
        (["--dry-run"], {"dry-run": True}),
        (["--dry-run", "--v=1"], {"dry-run": True, "v": 1}),
        (["--dry-run=F"], {"dry-run": False}),
        (["--dry_run=1"], {"dry-run": True}),
        (["--descheduling-interval", "1m30s"], {"descheduling-interval": 90.0}),
        (["--policy-config-file=/a=b"], {"policy-config-file": "/a=b"}),
        (["--policy-config-file", "--v"], {"policy-config-file": "--v"}),
        (["--policy-config-file="], {"policy-config-file": ""}),
        (["--secure-port=0x1F"], {"secure-port": 31}),
        (["--client-connection-qps=1.5e1"], {"client-connection-qps": 15.0}),
        (["--bind-address=::1"], {"bind-address": "::1"}),
        (["--tls-cipher-suites=a,b", "--tls-cipher-suites=c"], {"tls-cipher-suites": ["a", "b", "c"]}),
        (["--feature-gates=A=true", "--feature-gates=B=f,A=0"], {"feature-gates": {"A": False, "B": False}}),
        ([], {"v": 0, "dry-run": False, "secure-port": 10258, "leader-elect-lease-duration": 137.0}),
    ],
)
def test_values_in_every_spelling(args: list[str], values: dict[str, Any]) -> None:
    found = goflags.parse(FLAGS, args)
    assert {name: found.values[name] for name in values} == values
    assert found.rest == []


def test_positional_arguments_and_the_end_of_flags() -> None:
    found = goflags.parse(FLAGS, ["version", "--v=1", "--", "--dry-run"])
    assert found.rest == ["version", "--dry-run"]
    assert found.given == ["v"]


def test_given_flags_are_in_the_order_of_their_last_occurrence() -> None:
    assert goflags.parse(FLAGS, ["--v=1", "--dry-run", "-v2", "--kubeconfig=x"]).given == ["dry-run", "v", "kubeconfig"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--foo=1"], "unknown flag: --foo"),
        (["-feature-gates=A=true"], "unknown shorthand flag: 'f' in -feature-gates=A=true"),
        (["--kubeconfig"], "flag needs an argument: --kubeconfig"),
        (["-v"], "flag needs an argument: 'v' in -v"),
        (["--=x"], "bad flag syntax: --=x"),
        (["---v=1"], "bad flag syntax: ---v=1"),
        (["--v=x"], 'invalid argument "x" for "-v, --v" flag: strconv.ParseUint: parsing "x": invalid syntax'),
        (
            ["--v=99999999999"],
            'invalid argument "99999999999" for "-v, --v" flag: strconv.ParseUint: parsing "99999999999": value out of range',
        ),
        (["--dry-run=ja"], 'invalid argument "ja" for "--dry-run" flag: strconv.ParseBool: parsing "ja": invalid syntax'),
        (
            ["--descheduling-interval=5"],
            'invalid argument "5" for "--descheduling-interval" flag: time: missing unit in duration "5"',
        ),
        (["--secure-port=x"], 'invalid argument "x" for "--secure-port" flag: strconv.ParseInt: parsing "x": invalid syntax'),
        (
            ["--client-connection-qps=x"],
            'invalid argument "x" for "--client-connection-qps" flag: strconv.ParseFloat: parsing "x": invalid syntax',
        ),
        (["--bind-address=x"], 'invalid argument "x" for "--bind-address" flag: failed to parse IP: "x"'),
        (
            ["--feature-gates=EvictionsInBackground"],
            'invalid argument "EvictionsInBackground" for "--feature-gates" flag: malformed pair, expect string=bool',
        ),
        (
            ["--feature-gates=EvictionsInBackground=maybe"],
            'invalid argument "EvictionsInBackground=maybe" for "--feature-gates" flag: '
            'invalid value of EvictionsInBackground: maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
    ],
)
def test_refusals_in_the_original_words(args: list[str], message: str) -> None:
    with pytest.raises(FlagError) as caught:
        goflags.parse(FLAGS, args)
    assert str(caught.value) == message


@pytest.mark.parametrize("args", [["--help"], ["-h"], ["--v=3", "-h"]])
def test_help_is_told_apart(args: list[str]) -> None:
    with pytest.raises(HelpWanted):
        goflags.parse(FLAGS, args)


@pytest.mark.parametrize("value", ["1", "t", "T", "TRUE", "true", "True"])
def test_every_spelling_of_true_switches_the_gate_on(value: str) -> None:
    for args in (
        [f"--feature-gates={GATE}={value}"],
        ["--feature-gates", f" {GATE} = {value} "],
        ["--v", "3", f"--feature_gates={GATE}={value}"],
    ):
        assert parse_feature_gates(args) == {GATE: True}


@pytest.mark.parametrize("value", ["0", "f", "F", "FALSE", "false", "False"])
def test_every_spelling_of_false_switches_the_gate_off(value: str) -> None:
    assert parse_feature_gates([f"--feature-gates={GATE}=true", f"--feature-gates={GATE}={value}"]) == {GATE: False}


def test_gates_are_known_or_refused() -> None:
    with pytest.raises(FlagError, match=r"^unrecognized feature gate: Foo$"):
        parse_feature_gates(["--feature-gates=Foo=true"])
    with pytest.raises(FlagError, match="unrecognized feature gate: evictionsInBackground"):
        parse_feature_gates(["--feature-gates=evictionsInBackground=true"])


@pytest.mark.parametrize(
    ("gates", "on"),
    [
        ({}, False),
        ({GATE: True}, True),
        ({"AllAlpha": True}, True),
        ({"AllBeta": True}, False),
        ({"AllAlpha": True, GATE: False}, False),
        ({"AllAlpha": False, GATE: True}, True),
    ],
)
def test_all_alpha_counts_unless_the_gate_is_set_itself(gates: dict[str, bool], on: bool) -> None:
    assert gate_on(gates) is on


CONTAINERS: list[tuple[dict[str, Any], list[str]]] = [
    ({"command": ["/bin/descheduler"], "args": ["--v=3"]}, ["--v=3"]),
    ({"command": ["/bin/descheduler", "--v=3"]}, ["--v=3"]),
    ({"command": ["/bin/descheduler", "--v=3"], "args": ["--dry-run"]}, ["--v=3", "--dry-run"]),
    ({"args": ["--v=3"]}, ["--v=3"]),
    ({"args": ["/bin/descheduler", "--v=3"]}, ["--v=3"]),
    ({"args": ["--v=$(LEVEL)"], "env": [{"name": "LEVEL", "value": "4"}]}, ["--v=4"]),
    ({"args": ["--v=$(B)"], "env": [{"name": "A", "value": "4"}, {"name": "B", "value": "$(A)2"}]}, ["--v=42"]),
    ({"args": ["--v=$$(LEVEL)", "$(NOPE)"], "env": [{"name": "LEVEL", "value": "4"}]}, ["--v=$(LEVEL)", "$(NOPE)"]),
    ({"args": ["--v=$(S)"], "env": [{"name": "S", "valueFrom": {"secretKeyRef": {"name": "x", "key": "y"}}}]}, ["--v=$(S)"]),
    ({"args": ["--v=$(E)"], "env": [{"name": "E"}]}, ["--v="]),
    ({"command": ["sh", "-c", "exec /bin/descheduler --v=3 '--kubeconfig=a b'"]}, ["--v=3", "--kubeconfig=a b"]),
    ({"command": ["/bin/sh", "-c"], "args": ["/bin/descheduler --v=3"]}, ["--v=3"]),
    ({}, []),
    ({"command": None, "args": None}, []),
]


@pytest.mark.parametrize(("container", "flags"), CONTAINERS)
def test_the_flags_a_container_gets(container: dict[str, Any], flags: list[str]) -> None:
    assert goflags.flags_of(container) == flags


@pytest.mark.parametrize(
    "container",
    [
        {"command": ["sh", "-c", "sleep 5; /bin/descheduler --v=3"]},
        {"command": ["sh", "-c", "/bin/descheduler '--v=3"]},
        {"command": "descheduler"},
    ],
)
def test_what_cannot_be_read_is_said(container: dict[str, Any]) -> None:
    with pytest.raises(FlagError):
        goflags.flags_of(container)


def test_gate_of_a_container() -> None:
    gates = "--feature-gates=$(GATES)"
    container = {"command": ["/bin/descheduler"], "args": [gates], "env": [{"name": "GATES", "value": f"{GATE}=t"}]}
    assert background_on(container) is True
    assert background_on({"command": ["/bin/descheduler"], "args": ["--v=3"]}) is False


@given(st.lists(st.text(alphabet='-v=hx3,trueGates$()\\" \u00e9\n', max_size=12), max_size=5))
def test_any_words_are_read_or_refused(words: list[str]) -> None:
    for container in ({"args": words}, {"command": ["sh", "-c", *words]}):
        with contextlib.suppress(FlagError):
            parse_feature_gates(goflags.flags_of(container))
