"""Every supported pair of KubeVirt and descheduler is clean in the read-only scope: healthy means exactly the known defects."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import pytest

from fixtures import versions
from fixtures.embedded_spec import PLATFORMS
from fixtures.report import catalogue
from tests.conformance_flavours.conftest import Ran, RunAll

pytestmark = pytest.mark.slow

#: KubeVirt releases, both sides of changes inside a line among them, each with the HyperConverged that ships it.
FIRST_CLASS = {
    "1.6.1": "1.16.0",
    "1.7.2": "1.17.0",
    "1.7.4": "1.17.1",
    "1.8.1": "1.18.0",
    "1.8.4": "1.18.1",
    "1.9.0": "1.19.0",
}
OLDER = {"1.3.1": "1.13.0", "1.4.0": "1.14.0", "1.5.2": "1.15.0", "1.6.0": "1.16.0"}
HCO = {**OLDER, **FIRST_CLASS}
PAIRS = (
    *product(FIRST_CLASS, ("0.34.0", "0.35.1", "0.36.0")),
    *product(OLDER, ("0.32.2", "0.36.0")),
    *product(("1.6.1", "1.9.0"), ("0.32.2", "0.33.0")),
)
NOT_APPLICABLE = {"POL-6", "POL-8", "CRD-1", "CRD-2", "CRD-3", "CRD-4", "EVR-1"}
#: Each: the key of ``--embedded``, absent and there, and the checks that are about it.
PARTS = {
    "kubedescheduler": ("absent", "served", {"CRD-1", "CRD-2", "CRD-4"}),
    "evictionrequest": ("absent", "served", {"EVR-1"}),
    "globalcluster": ("none", "given", {"ACP-1"}),
}
CHOICES = [dict(zip(PARTS, c, strict=True)) for c in product(*((absent, there) for absent, there, _ in PARTS.values()))]


def named(chosen: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in chosen.items())


@pytest.fixture(scope="module")
def ran(run_all: RunAll) -> dict[str, Ran]:
    jobs = {f"{k} {d}": [f"--embedded=kubevirt={k},hco={HCO[k]},descheduler={d}"] for k, d in PAIRS}
    jobs |= {named(c): [f"--embedded={named(c)}", "--record=acp=4.4"] for c in CHOICES}
    return run_all({name: [*words, "--allow=read-only", "-q"] for name, words in jobs.items()})


def test_every_line_of_both_products_is_among_them() -> None:
    for what, found in zip(("KubeVirt", "descheduler"), zip(*PAIRS, strict=True), strict=True):
        assert {versions.Version(v).minor for v in found} == set(versions.KNOWN[what])


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_a_pair_has_exactly_its_known_defects(ran: Mapping[str, Ran], pair: tuple[str, str]) -> None:
    kubevirt, descheduler = pair
    read_only = {e.spec.id for e in catalogue.load() if e.spec.impact == "read-only"}
    known = {d.check for d in versions.known_defects(kubevirt=kubevirt, descheduler=descheduler)} & read_only
    found = ran[" ".join(pair)]
    assert set(found.undecided) == known, found.undecided
    assert found.verdict == "conformant (simulated)"
    open_by_design = {"SEC-3"} if versions.kubevirt(kubevirt).failure_policy == "Ignore" else set()
    assert set(found.those("not-applicable")) == NOT_APPLICABLE | open_by_design
    told = {v["product"]: v["version"] for v in found.certificate["versions"]}
    assert (told["KubeVirt"], told["descheduler image"]) == (f"v{kubevirt}", f"v{descheduler}")
    assert told["HyperConverged"] == HCO[kubevirt]


@pytest.mark.parametrize("chosen", CHOICES, ids=named)
def test_optional_parts_decide_about_their_own_checks_only(ran: Mapping[str, Ran], chosen: Mapping[str, str]) -> None:
    found, missing = ran[named(chosen)], {"POL-6", "POL-8", "CRD-3"}
    for part, (absent, _, checks) in PARTS.items():
        missing |= checks if chosen[part] == absent else set()
    assert (found.undecided, found.verdict) == ({}, "conformant (simulated)")
    assert set(found.those("not-applicable")) == missing


def test_every_platform_has_a_flavour() -> None:
    from tests.conformance_flavours.test_flavours import FLAVOURS

    assert {spec.partition(",")[0].removeprefix("platform=") for spec in FLAVOURS.values() if "platform=" in spec} == set(PLATFORMS)
