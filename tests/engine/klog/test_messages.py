"""Every message of the balance path is understood, and says what it should."""

from collections.abc import Callable, Iterable

import pytest

from fixtures.engine import klog
from fixtures.engine.klog import messages as known
from fixtures.engine.report import CycleReport, Filtered, Step

KlogText = Callable[[Iterable[str]], str]
USAGE = 'usage={"cpu":"1"} usagePercentage={"cpu":10}'

#: Message and fields of lines that leave a trace in the report, with the path there.
FACTS: list[tuple[str, Callable[[CycleReport], object], object]] = [
    (
        f'"Node has been classified" category="underutilized" node="n" {USAGE}',
        lambda r: r.passes[0].nodes["n"].category,
        "underutilized",
    ),
    (f'"Node is underutilized" node="n" {USAGE}', lambda r: r.passes[0].nodes["n"].category, "underutilized"),
    (f'"Node is overutilized" node="n" {USAGE}', lambda r: r.passes[0].nodes["n"].category, "overutilized"),
    (f'"Node is appropriately utilized" node="n" {USAGE}', lambda r: r.passes[0].nodes["n"].category, "appropriate"),
    ('"Criteria for a node under utilization" cpu="30.00%"', lambda r: r.passes[0].criteria_under, {"cpu": "30.00%"}),
    ('"Criteria for a node above target utilization" cpu="3.00%"', lambda r: r.passes[0].criteria_target, {"cpu": "3.00%"}),
    ('"Criteria for a node below target utilization" cpu="3.00%"', lambda r: r.passes[0].criteria_target, {"cpu": "3.00%"}),
    ('"Assessed average usage" cpu="33.33%"', lambda r: r.passes[0].assessed, {"average": {"cpu": "33.33%"}}),
    ('"Assessed thresholds for underutilized nodes" cpu="1.00%"', lambda r: r.passes[0].assessed, {"under": {"cpu": "1.00%"}}),
    ('"Assessed thresholds for overutilized nodes" cpu="1.00%"', lambda r: r.passes[0].assessed, {"over": {"cpu": "1.00%"}}),
    ('"Number of underutilized nodes" totalNumber=2', lambda r: r.passes[0].underutilized, 2),
    ('"Number of overutilized nodes" totalNumber=3', lambda r: r.passes[0].overutilized, 3),
    (
        '"Total capacity to be moved" CPU=1 Mem=2 Pods=3 nvidia.com/gpu=-4',
        lambda r: r.passes[0].capacity_to_be_moved,
        {"CPU": 1, "Mem": 2, "Pods": 3, "nvidia.com/gpu": -4},
    ),
    (
        '"Pod fails the following checks" plugin="DefaultEvictor" ExtensionPoint="Filter" pod="ns/p" checks="[a, b]"',
        lambda r: r.passes[0].filtered,
        [Filtered("ns/p", "[a, b]")],
    ),
    ('"Pod fails the following checks" pod="ns/p" checks="a"', lambda r: r.passes[0].filtered, [Filtered("ns/p", "a")]),
    ('"Evicting pods from node" node="n" usage={"cpu":"1"}', lambda r: r.passes[0].sources[0].node, "n"),
    (
        '"Pods on node" node="n" allPods=3 nonRemovablePods=1 removablePods=2',
        lambda r: r.passes[0].sources[0].pods,
        {"all": 3, "nonRemovable": 1, "removable": 2},
    ),
    ('"Pod does not fit on node" pod="ns/p" node="n" err="why"', lambda r: r.passes[0].fits_nowhere, {"ns/p": {"n": "why"}}),
    ('"Pod fits on node" pod="ns/p" node="n"', lambda r: r.passes[0].fits_nowhere, {}),
    ('"Skipping descheduling cycle: requires >=2 nodes" found=1', lambda r: bool(r.skipped), True),
    ('"running balance extension point failed with error" err="why" profile="p"', lambda r: r.plugin_errors, ["why"]),
    ('"running deschedule extension point failed with error" err="why" profile="p"', lambda r: r.plugin_errors, ["why"]),
    ('"command failed" err="why"', lambda r: r.fatal, "why"),
    ("Resetting pod evictor counters", lambda r: r.skipped, None),
    ("Setting up the pod evictor", lambda r: r.skipped, None),
    ("Pods", lambda r: len(r.unparsed), 1),
]
FACTS += [(f'"{text}"', lambda r: r.passes[0].early_exit is not None, True) for text in sorted(known.EARLY_EXITS)]
STEPS: list[tuple[str, Step]] = [
    (f'"{message}" pod="ns/p"', Step(pod="ns/p", result=result)) for message, result in sorted(known.STEPS.items())
]
STEPS += [
    ('"No removable pods on node, try next node" node="n"', Step(stop="noRemovablePods")),
    ('"Max number of evictions per node per plugin reached" limit=2', Step(stop="evictionLimits.node", limit=2)),
    (
        '"Error evicting pod" err="maximum number of evicted pods per a descheduling cycle reached" limit=1',
        Step(result="limitTotal", limit=1),
    ),
    (
        '"Error evicting pod" err="maximum number of evicted pods per node reached" limit=1 node="n"',
        Step(result="limitNode", limit=1),
    ),
    (
        '"Error evicting pod" err="maximum number of evicted pods per namespace reached" limit=1 namespace="ns" pod="ns/p"',
        Step(pod="ns/p", result="limitNamespace", limit=1),
    ),
    (
        '"Error evicting pod" err="pod not found when evicting \\"p\\": gone" pod="ns/p" reason=""',
        Step(pod="ns/p", result="error", error='pod not found when evicting "p": gone'),
    ),
]
FIELDS = {
    "Evicted pods": 'pod="ns/p"',
    "Assumed eviction request in background timed out, deleting": 'timeout=600 podNamespace="ns" podName="p"',
    "Eviction in background canceled (annotation removed). Removing pod from the cache.": 'annotation="a" pod="ns/p"',
    "Ignoring node": 'node="n" condition="Ready" status="False"',
    "Ignoring pod eviction due to missing UID": 'pod={"metadata":{"name":"p"},"spec":{"containers":null}}',
    "skipping plugin": 'err="unable to get plugin config" plugin="X" profile="p"',
}


@pytest.mark.parametrize(("line", "read", "value"), FACTS, ids=lambda v: v[:60] if isinstance(v, str) else "")
def test_a_message_becomes_its_fact(klog_text: KlogText, line: str, read: Callable[[CycleReport], object], value: object) -> None:
    end = '"Total number of evictions/requests" extension point="Balance" evictedPods=0 evictionRequests=0'
    level = "E" if "err=" in line and "fit" not in line else "I"
    (found,) = klog.reports(klog_text([f"{level} a.go {line}", f"I profile.go {end}"]))
    assert read(found) == value
    assert found.unparsed == [] or line == "Pods"


@pytest.mark.parametrize(("line", "step"), STEPS, ids=lambda v: v[:60] if isinstance(v, str) else "")
def test_a_turn_becomes_its_step_with_the_usage_after_it(klog_text: KlogText, line: str, step: Step) -> None:
    level = "E" if line.startswith('"Error') else "I"
    lines = [
        'I nodeutilization.go "Evicting pods from node" node="n" usage={"cpu":"1"}',
        f"{level} evictions.go {line}",
        'I nodeutilization.go "Updated node usage" node="n" CPU=1 Mem=2 Pods=3',
    ]
    found = klog.report(klog_text(lines))
    step.usage_after = {"CPU": 1, "Mem": 2, "Pods": 3}
    assert (found.steps, found.unparsed) == ([step], [])


@pytest.mark.parametrize("message", sorted(known.NOTED))
def test_a_message_without_a_place_in_the_report_is_understood(klog_text: KlogText, message: str) -> None:
    level = "E" if message.startswith(("Error", "failed", "eviction failed", "skipping", "unable", "the cluster")) else "I"
    for line in (f'{level} a.go "{message}" {FIELDS.get(message, "")}'.rstrip(), f"{level} a.go {message}"):
        found = klog.report(klog_text([line]))
        assert (found.unparsed, found.steps) == ([], [])


@pytest.mark.parametrize("start", known.NOTED_STARTS)
def test_a_preformatted_message_is_understood_by_its_start(klog_text: KlogText, start: str) -> None:
    assert klog.report(klog_text([f"E a.go {start}whatever follows"])).unparsed == []


@pytest.mark.parametrize(
    "line",
    [
        'I descheduler.go "Number of evictions/requests" totalEvicted="0" evictionRequests=0',
        'I descheduler.go "Number of evictions/requests" totalEvicted=0',
        'I descheduler.go "Number of evictions/requests" totalEvicted=true evictionRequests=0',
        'I profile.go "Total number of evictions/requests" evictedPods=0 evictionRequests=0',
        'I lownodeutilization.go "Node has been classified" node="n" usage={"cpu":"1"} usagePercentage={"cpu":1}',
        'I lownodeutilization.go "Node is underutilized" node="n" usage={"cpu":"1"} usagePercentage={"cpu":"1"}',
        'I lownodeutilization.go "Node is underutilized" node="n" usage={"cpu":"1" usagePercentage={"cpu":1}',
        'I nodeutilization.go "Total capacity to be moved" CPU=many',
        'I nodeutilization.go "Updated node usage" node="n" CPU=1',
        'I evictions.go "Evicted pod" pod=7',
        'I evictions.go "Evicted pod',
        'I evictions.go "A message nobody knows" pod="ns/p"',
        "I evictions.go Evicted pods everywhere",
        'E reflector.go "Failed to watch" err="forbidden" type="*v1.Pod"',
    ],
)
def test_what_is_not_understood_is_kept_and_nothing_is_concluded(klog_text: KlogText, line: str) -> None:
    text = klog_text([line])
    found = klog.report(text)
    assert found.unparsed == [text.rstrip("\n")]
    assert found.to_dict() == {"passes": [], "posts": []}
