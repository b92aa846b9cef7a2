"""Reads that an API server refuses or does not answer: what rests on them says so, all else runs, and the verdict follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fixtures.embedded import errors
from fixtures.embedded.api.context import answer
from fixtures.embedded.api.http import Response
from fixtures.embedded.ports import ApiError
from fixtures.embedded.server import Arrival
from tests.live.conftest import Live

pytestmark = pytest.mark.slow

Faults = Callable[[dict[str, Callable[[int], Response | None]]], None]


def refuse(code: int, reason: str, message: str, **headers: str) -> Callable[[int], Response]:
    def refusal(_: int) -> Response:
        return answer(errors.status(ApiError(code, message, reason=reason)), code, **headers)

    return refusal


def first(times: int, refusal: Callable[[int], Response]) -> Callable[[int], Response | None]:
    return lambda count: refusal(count) if count <= times else None


@pytest.fixture
def faults(live: Live) -> Iterator[Faults]:
    """Answers lists of these resources so, by how often they were asked for."""
    interceptors = live.cluster.world.server.interceptors
    before = list(interceptors)

    def plant(found: dict[str, Callable[[int], Response | None]]) -> None:
        count: dict[str, int] = {}

        def intercept(arrival: Arrival) -> Response | None:
            key = f"{arrival.target.resource}.{arrival.target.group}".rstrip(".")
            if arrival.target.verb != "list" or key not in found:
                return None
            count[key] = count.get(key, 0) + 1
            return found[key](count[key])

        interceptors.append(intercept)

    yield plant
    interceptors[:] = before


FORBIDDEN = refuse(403, "Forbidden", 'virtualmachineinstances.kubevirt.io is forbidden: User "admin" cannot list resource')
BUSY = refuse(429, "TooManyRequests", "Too many requests, please try again later.", **{"Retry-After": "60"})
SOON = refuse(429, "TooManyRequests", "Too many requests, please try again later.", **{"Retry-After": "1"})
BROKEN = refuse(500, "InternalError", "etcdserver: no leader")


def test_what_rests_on_a_failed_read_says_so_and_all_else_runs(live: Live, faults: Faults, tmp_path: Path) -> None:
    faults(
        {
            "virtualmachineinstances.kubevirt.io": FORBIDDEN,
            "endpointslices.discovery.k8s.io": BUSY,
            "clusterrolebindings.rbac.authorization.k8s.io": BROKEN,
            "migrationpolicies.migrations.kubevirt.io": lambda _: Response(200, abort=True),
            "nodes": first(1, SOON),
        }
    )
    found = live.certify(tmp_path, f"--global-kubeconfig={live.cluster.global_kubeconfig}")
    unsettled = {
        "HCO-4": "403: virtualmachineinstances.kubevirt.io is forbidden",
        "HCO-6": "403: virtualmachineinstances.kubevirt.io is forbidden",
        "HCO-8": "403: virtualmachineinstances.kubevirt.io is forbidden",
        "INT-2": "429 TooManyRequests: Too many requests, please try again later.",
        "REN-6": "500 InternalError: etcdserver: no leader",
        "SEC-2": "500 InternalError: etcdserver: no leader",
        "SEC-4": "500 InternalError: etcdserver: no leader",
        "SEC-5": "the connection broke",
    }
    assert found.those("inconclusive", "skipped") == set(unsettled), found.output
    assert {check: said for check, said in unsettled.items() if said not in found.reason(check)} == {}
    assert found.those("failed") == set()
    assert len(found.those("passed")) >= 24
    assert found.outcomes["HCO-5"] == found.outcomes["VER-1"] == "passed", "nodes were listed when asked again"
    assert found.certificate["verdict"]["word"] == "partial"
    assert found.status == 6
    assert "Traceback" not in found.output


def test_a_cornerstone_that_cannot_be_read_leaves_nothing_to_certify(live: Live, faults: Faults, tmp_path: Path) -> None:
    faults({"validatingwebhookconfigurations.admissionregistration.k8s.io": FORBIDDEN, "configmaps": BUSY})
    found = live.certify(tmp_path, "--record=acp=4.4")
    assert found.certificate["verdict"]["word"] == "unknown", found.output
    assert found.status == 5
    reasons = found.certificate["verdict"]["reasons"]
    assert any(r.startswith("INT-1 did not run (inconclusive: whether the interceptor is registered is unknown: ") for r in reasons)
    assert found.those("failed") == set()


def test_silence_ends_and_is_told(live: Live, faults: Faults, tmp_path: Path) -> None:
    faults({"virtualmachineinstances.kubevirt.io": lambda _: Response(200, b"{}", delay=30.0)})
    found = live.certify(tmp_path, "--check=HCO,VER", "--timeout-scale=0.02")
    assert {found.outcomes[c] for c in ("HCO-4", "HCO-6", "HCO-8")} == {"inconclusive"}, found.output
    assert "connected, but no answer in time" in found.reason("HCO-4")
    assert found.outcomes["HCO-1"] == "passed"
    assert len([e for e in live.asked if e.key == "virtualmachineinstances.kubevirt.io"]) == 1
