"""Certificates for tests: a whole one with a scenario, one without, and a hostile one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fixtures.checks import Evidence, Impact, Level, Outcome, Scope, Spec, Status
from fixtures.report.certificate import (
    Certificate,
    CheckRow,
    ClusterRow,
    Cost,
    FeatureRow,
    Suite,
    VersionRow,
    check_row,
    evidence_file,
    identity_of,
    rejudge,
)

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7*7 }}'
LOG = Evidence("log", "pods/x", "a line\nanother\n", "2026-01-01T00:00:00.000Z")


def row(
    id: str,
    status: Status = Status.PASSED,
    reason: str = "",
    *,
    level: Level = Level.REQUIRED,
    seconds: float = 0.01,
    evidence: tuple[Evidence, ...] = (),
) -> CheckRow:
    outcome = Outcome(id, status, reason or ("" if status is Status.PASSED else "because"), evidence, level, seconds)
    return check_row(Spec(id, level, Impact.READ_ONLY, f"the sentence of {id}"), f"title of {id}", outcome)


def node(category: str, **percent: float) -> dict[str, Any]:
    return {"class": category, "usage": {}, "percent": percent}


def move(number: int, *, phase: str = "Succeeded") -> dict[str, Any]:
    start, end = 12 * (number - 1), 12 * number - 1
    return {
        "vm": f"vm-{number}",
        "vmiUID": f"uid-{number}",
        "vmiUIDAfter": f"uid-{number}",
        "source": "worker-a",
        "target": "worker-b",
        "launcher": f"virt-launcher-vm-{number}-x",
        "vmim": f"kubevirt-evacuation-{number}",
        "phase": phase,
        "phases": ["Pending", "Running", phase],
        "phaseTimes": [
            {"phase": "Pending", "at": f"2026-01-01T00:00:{start:02}Z"},
            {"phase": "Running", "at": f"2026-01-01T00:00:{start + 2:02}Z"},
            {"phase": phase, "at": f"2026-01-01T00:00:{end:02}Z"},
        ],
        "cycle": number,
        "requestedAt": f"2026-01-01T00:00:{start:02}.250Z",
        "finishedAt": f"2026-01-01T00:00:{end:02}.500Z",
        "oldLauncher": "Succeeded",
        "markers": {"eviction-in-progress": "true", "eviction-source": "descheduler"},
    }


def scenario() -> dict[str, Any]:
    before = {"worker-a": node("overutilized", cpu=70, memory=73), "worker-b": node("underutilized", cpu=65, memory=54)}
    after = {"worker-a": node("appropriate", cpu=67, memory=64), "worker-b": node("appropriate", cpu=67, memory=64)}
    return {
        "reached": "rolled-back",
        "namespace": "ns",
        "source": "worker-a",
        "target": "worker-b",
        "plannedMoves": 2,
        "thresholds": {"thresholds": {"cpu": 75.0, "memory": 62.0}, "targetThresholds": {"cpu": 80.0, "memory": 66.0}},
        "policy": "kind: DeschedulerPolicy\nprofiles: []\n",
        "moves": [move(1), move(2)],
        "cycles": [
            {"number": 1, "exitCode": 0, "evictionRequests": 1, "totalEvicted": 0, "requested": ["ns/a"], "nodes": before},
            {"number": 2, "exitCode": 0, "evictionRequests": 1, "totalEvicted": 0, "requested": ["ns/b"], "nodes": before},
            {"number": 3, "exitCode": 0, "evictionRequests": 0, "totalEvicted": 0, "earlyExit": "No node", "nodes": after},
        ],
        "rollback": {"done": True, "engineResumed": True},
    }


def certificate(
    *rows: CheckRow,
    source: str = "embedded",
    kubevirt: str = "v1.8.4",
    image: str = "v0.36.0",
    with_scenario: bool = True,
    taken_at: str = "2026-01-01T00:00:00Z",
    seconds: float = 9.5,
    **changes: Any,
) -> Certificate:
    """With cornerstones passed unless ``rows`` say otherwise; the verdict follows from the rows."""
    given = {r.id: r for r in rows}
    base = [row("POL-2", evidence=(LOG,)), row("REN-2"), row("INT-1"), row("MIG-1")]
    checks = [given.pop(r.id, r) for r in base] + list(given.values())
    simulated = source == "embedded"
    found = Certificate(
        suite=Suite("0.1.0", "abc"),
        taken_at=taken_at,
        cluster=ClusterRow(source, identity_of("uid")),
        scope=Scope.SIMULATED if simulated else Scope.LIVE_MIGRATION,
        engine="reference" if simulated else "installed",
        options={"embedded": f"kubevirt={kubevirt}", "report-dir": "/x"} if simulated else {"cluster": source},
        verdict=rejudge_word(checks, simulated=simulated),
        versions=(
            VersionRow("platform", "ACP 4.4", "ProductBase"),
            VersionRow("Kubernetes", "v1.35.0", "/version"),
            VersionRow("KubeVirt", kubevirt, "KubeVirt CR"),
            VersionRow("HyperConverged", "not installed"),
            VersionRow("descheduler image", image, "image"),
        ),
        features=(FeatureRow("kubevirts.kubevirt.io", "present", "served in v1"),),
        checks=tuple(checks),
        scenario=scenario() if with_scenario else None,
        cost=Cost(seconds, 620.0, 431),
    )
    return replace(found, **changes)


def rejudge_word(checks: list[CheckRow], *, simulated: bool) -> Any:
    scope = Scope.SIMULATED if simulated else Scope.LIVE_MIGRATION
    bare = Certificate(suite=Suite("0"), taken_at="", cluster=ClusterRow(""), scope=scope, verdict=None, checks=tuple(checks))  # type: ignore[arg-type]
    return rejudge(bare)


def evidence_of(found: Certificate) -> dict[str, Evidence]:
    return {evidence_file(r.id, 1, LOG): LOG for r in found.checks if r.evidence}


def hostile() -> Certificate:
    """Every text in it tries to be HTML, a template or a table."""
    told = scenario()
    told |= {"namespace": HOSTILE, "source": HOSTILE, "policy": HOSTILE, "stoppedBecause": HOSTILE}
    told["moves"][0] |= {"vm": HOSTILE, "vmim": HOSTILE, "phase": HOSTILE, "phaseTimes": [{"phase": HOSTILE, "at": HOSTILE}, 5]}
    told["cycles"][0] |= {"nodes": {HOSTILE: {"class": HOSTILE, "percent": {HOSTILE: 5, "cpu": float("inf")}}}, "log": [HOSTILE]}
    rows = (row("POL-8", Status.FAILED, HOSTILE), replace(row("SEC-1", Status.SKIPPED, HOSTILE), title=HOSTILE, source=HOSTILE))
    return certificate(
        *rows,
        source="live",
        kubevirt=HOSTILE,
        engine=HOSTILE,
        suite=Suite(HOSTILE, HOSTILE),
        options={"seed": HOSTILE},
        cluster=ClusterRow("live", HOSTILE),
        scenario=told,
        features=(FeatureRow(HOSTILE, HOSTILE, HOSTILE),),
        not_restored=(HOSTILE,),
    )
