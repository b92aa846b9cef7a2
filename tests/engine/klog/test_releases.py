"""Logs as the releases 0.31 to 0.36 wrote them, text and JSON, and the reports they give."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from fixtures.engine import klog
from fixtures.engine.report import NodeClass, Source, Step

LOGS = Path(__file__).parent / "logs"
KlogText = Callable[[Iterable[str]], str]


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.log")), ids=lambda p: p.stem)
def test_every_line_of_a_real_log_is_understood(path: Path) -> None:
    (found,) = klog.reports(path.read_text(encoding="utf-8"), exit_code=0)
    assert found.unparsed == []
    assert found.exit_code == 0
    assert found.total_evicted == 0
    assert found.log == path.read_text(encoding="utf-8")


def test_real_log_with_a_request_and_the_total_limit() -> None:
    found = klog.report((LOGS / "descheduler-29000004-tslk9.log").read_text(encoding="utf-8"))
    assert found.eviction_requests == 1
    assert [s.result for s in found.steps] == ["background", "limitTotal"]
    assert len(found.requested) == 1


def test_real_log_of_the_gate_switched_off() -> None:
    found = klog.report((LOGS / "j2-gate-off.log").read_text(encoding="utf-8"))
    assert found.eviction_requests == 0
    assert found.requested == []
    assert {s.result for s in found.steps} == {"error"}
    assert all("Eviction triggered evacuation of VMI" in (s.error or "") for s in found.steps)


RELEASE_0_32 = [
    'I nodeutilization.go "Node is underutilized" node="n2" usage={"cpu":"500m","memory":"512Mi","pods":"1"} '
    'usagePercentage={"cpu":12.5,"memory":6.25,"pods":0.91}',
    'I nodeutilization.go "Node is overutilized" node="n1" usage={"cpu":"3500m","memory":"3584Mi","pods":"7"} '
    'usagePercentage={"cpu":87.5,"memory":43.75,"pods":6.36}',
    'I nodeutilization.go "Node is appropriately utilized" node="n3" usage={"cpu":"0","memory":"0","pods":"0"} '
    'usagePercentage={"cpu":0,"memory":0,"pods":0}',
    'I lownodeutilization.go "Criteria for a node under utilization" CPU=30 Mem=30 Pods=100',
    'I lownodeutilization.go "Number of underutilized nodes" totalNumber=1',
    'I lownodeutilization.go "Criteria for a node above target utilization" CPU=50 Mem=50 Pods=100',
    'I lownodeutilization.go "Number of overutilized nodes" totalNumber=1',
    'I nodeutilization.go "Total capacity to be moved" CPU=1500 Mem=3758096384 Pods=109',
    'I nodeutilization.go "Evicting pods from node" node="n1" usage={"cpu":"3500m","memory":"3584Mi","pods":"7"}',
    'I nodeutilization.go "Pods on node" node="n1" allPods=7 nonRemovablePods=6 removablePods=1',
    'I nodeutilization.go "Evicting pods based on priority, if they have same priority, they\'ll be evicted based on QoS tiers"',
    'I evictions.go "Eviction in background assumed" pod="vms/virt-launcher-a-x"',
    'I nodeutilization.go "Evicted pods" pod="vms/virt-launcher-a-x"',
    'I nodeutilization.go "Updated node usage" node="n1" CPU=3000 Mem=3221225472 Pods=6',
    'I profile.go "Total number of evictions/requests" extension point="Balance" evictedPods=0 evictionRequests=1',
    'I descheduler.go "Number of evictions/requests" totalEvicted=0 evictionRequests=1',
]


def test_release_0_32_names_classes_in_the_message_and_prints_two_decimals(klog_text: KlogText) -> None:
    found = klog.report(klog_text(["I descheduler.go Setting up the pod evictor", *RELEASE_0_32]))
    (one,) = found.passes
    assert one.nodes["n2"] == NodeClass(
        "underutilized", {"cpu": "500m", "memory": "512Mi", "pods": "1"}, {"cpu": 12.5, "memory": 6.25, "pods": 0.91}
    )
    assert {name: n.category for name, n in one.nodes.items()} == {
        "n1": "overutilized",
        "n2": "underutilized",
        "n3": "appropriate",
    }
    assert one.criteria_under == {"CPU": 30, "Mem": 30, "Pods": 100}
    assert one.criteria_target == {"CPU": 50, "Mem": 50, "Pods": 100}
    assert one.criteria == (
        {"cpu": "30.00%", "memory": "30.00%", "pods": "100.00%"},
        {"cpu": "50.00%", "memory": "50.00%", "pods": "100.00%"},
    )
    assert one.sources == [
        Source(
            "n1",
            [Step(pod="vms/virt-launcher-a-x", result="background", usage_after={"CPU": 3000, "Mem": 3221225472, "Pods": 6})],
            {"all": 7, "nonRemovable": 6, "removable": 1},
        )
    ]
    assert (found.total_evicted, found.eviction_requests, found.unparsed) == (0, 1, [])


def test_release_0_31_has_summaries_without_requests(klog_text: KlogText) -> None:
    found = klog.report(
        klog_text(
            [
                'I evictions.go "Evicted pod" pod="ns/a" reason="" strategy="LowNodeUtilization" node="n1" profile="p"',
                'I profile.go "Total number of pods evicted" extension point="Balance" evictedPods=1',
                'I descheduler.go "Number of evicted pods" totalEvicted=1',
            ]
        )
    )
    assert found.passes[0].summary == {"extensionPoint": "Balance", "evictedPods": 1}
    assert (found.total_evicted, found.eviction_requests) == (1, None)
    assert found.pods_with("evicted") == ["ns/a"]


def test_up_to_release_0_33_one_node_stops_the_process(klog_text: KlogText) -> None:
    found = klog.report(
        klog_text(
            [
                'I descheduler.go "The cluster size is 0 or 1 meaning eviction causes service disruption or degradation. '
                'So aborting.."',
                "E descheduler.go the cluster size is 0 or 1",
            ]
        ),
        exit_code=0,
    )
    assert found.skipped is not None
    assert found.skipped.startswith("The cluster size is 0 or 1")
    assert found.unparsed == []


def test_release_0_34_prints_no_summary_where_nodes_are_too_few(klog_text: KlogText) -> None:
    cycle = [
        "I descheduler.go Setting up the pod evictor",
        'I descheduler.go "Skipping descheduling cycle: requires >=2 nodes" found=1',
    ]
    for lines in (cycle * 3, cycle[1:] * 3):
        found = klog.reports(klog_text(lines))
        assert [r.skipped for r in found] == ["Skipping descheduling cycle: requires >=2 nodes"] * 3
        assert [r.total_evicted for r in found] == [None] * 3


def test_json_logging_gives_the_same_report_but_for_what_it_loses() -> None:
    found = klog.report((LOGS / "release-0.36.jsonl").read_text(encoding="utf-8"))
    (one,) = found.passes
    assert one.nodes == {"n1": NodeClass("overutilized", {"cpu": "3500m"}, {"cpu": 88})}
    assert one.criteria_under is None
    assert one.sources == [
        Source(
            "n1",
            [
                Step(pod="vms/a", result="background"),
                Step(pod="vms/b", result="error", error='error when evicting pod (ignoring) "b": no'),
            ],
        )
    ]
    assert one.summary == {"extensionPoint": "Balance", "evictedPods": 0, "evictionRequests": 1}
    assert (found.total_evicted, found.eviction_requests, found.unparsed) == (0, 1, [])


@pytest.mark.parametrize(
    ("line", "fatal"),
    [
        (
            'Error: invalid argument "EvictionsInBackground" for "--feature-gates" flag: malformed pair, expect string=bool',
            'invalid argument "EvictionsInBackground" for "--feature-gates" flag: malformed pair, expect string=bool',
        ),
        (
            'E0102 15:04:05.000000       1 run.go:72] "command failed" err="unrecognized feature gate: Foo"',
            "unrecognized feature gate: Foo",
        ),
        (
            '{"ts":1.5,"caller":"cli/run.go:72","msg":"command failed","err":"deschedulerPolicy is nil"}',
            "deschedulerPolicy is nil",
        ),
        (
            "F0102 15:04:05.000000       1 server.go:1] failed to start secure server: failed to create listener",
            "failed to start secure server: failed to create listener",
        ),
        (
            "panic: runtime error: invalid memory address or nil pointer dereference",
            "panic: runtime error: invalid memory address or nil pointer dereference",
        ),
    ],
)
def test_a_start_up_error_is_the_fatal_text(line: str, fatal: str) -> None:
    (found,) = klog.reports(line + "\n", exit_code=1)
    assert (found.fatal, found.exit_code, found.unparsed) == (fatal, 1, [])


@pytest.mark.parametrize("prefix", ["2026-12-01T08:48:06.424749123Z ", "2026-12-01T08:48:06.4+01:00 stderr F "])
def test_time_stamps_in_front_of_the_lines_do_not_matter(klog_text: KlogText, prefix: str) -> None:
    plain = klog_text(RELEASE_0_32)
    stamped = "".join(f"{prefix}{line}\n" for line in plain.splitlines())
    assert klog.report(stamped).to_dict() == klog.report(plain).to_dict()


def test_profiles_that_follow_one_another_are_passes_of_their_own(klog_text: KlogText) -> None:
    body, end = RELEASE_0_32[:-1], RELEASE_0_32[-1]
    other = [line.replace("virt-launcher-a-x", "virt-launcher-b-x").replace("Balance", "Deschedule") for line in body]
    found = klog.report(klog_text([*body, *other, end]))
    assert [one.summary["extensionPoint"] for one in found.passes if one.summary] == ["Balance", "Deschedule"]
    assert found.requested == ["vms/virt-launcher-a-x", "vms/virt-launcher-b-x"]


def test_each_summary_line_ends_a_cycle_in_deployment_mode(klog_text: KlogText) -> None:
    text = klog_text(["I descheduler.go Resetting pod evictor counters", *RELEASE_0_32] * 4 + RELEASE_0_32[:4])
    found = klog.reports(text)
    assert [r.eviction_requests for r in found] == [1, 1, 1, 1, None]
    assert "".join(r.log for r in found) == text
    assert klog.report(text).to_dict() == found[3].to_dict()
