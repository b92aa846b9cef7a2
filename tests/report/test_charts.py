"""Geometry of the pictures: inside the frame, in order, no two labels on one another."""

from __future__ import annotations

import pytest

from fixtures.report.charts import TW, H, W, timeline, utilisation
from fixtures.report.story import epoch, story
from tests.report.samples import move, node, scenario


def test_a_chart_for_each_resource_with_thresholds():
    charts = utilisation(story(scenario()))
    assert [c.resource for c in charts] == ["cpu", "memory"]
    memory = charts[1]
    assert [s.node for s in memory.series] == ["worker-a", "worker-b"]
    assert [name for _, name in memory.stages] == ["before 1", "before 2", "at the end"]
    assert [[d.label for d in s.dots] for s in memory.series] == [["73 %", "73 %", "64 %"], ["54 %", "54 %", ""]]


@pytest.mark.parametrize("value", [0, 0.5, 50, 100, 250])
def test_all_dots_and_limits_are_inside_the_frame(value):
    told = scenario()
    told["cycles"][0]["nodes"] = {"worker-a": node("x", cpu=value, memory=value), "worker-b": node("x", cpu=1, memory=2)}
    for chart in utilisation(story(told)):
        for s in chart.series:
            assert all(0 < d.x < W and 0 < d.y < H and 0 < d.label_y < H for d in s.dots)
        assert 0 < chart.high_y <= chart.low_y < H
        assert len(chart.ticks) <= 8


def test_a_higher_value_is_drawn_higher_and_labels_keep_apart():
    for chart in utilisation(story(scenario())):
        a, b = chart.series
        for upper, lower in zip(a.dots[:2], b.dots[:2], strict=True):
            assert upper.y < lower.y
            assert lower.label_y - upper.label_y > 12


def test_a_lane_for_each_move_phases_in_order_and_inside():
    found = timeline(story(scenario()))
    assert [lane.label for lane in found.lanes] == ["vm-1: worker-a → worker-b", "vm-2: worker-a → worker-b"]
    assert [lane.outcome for lane in found.lanes] == ["Succeeded after 11.2 s", "Succeeded after 11.2 s"]
    for lane in found.lanes:
        assert [s.kind for s in lane.segments] == ["waiting", "copying"]
        assert lane.segments[0].x + lane.segments[0].width == pytest.approx(lane.segments[1].x, abs=0.2)
        assert lane.end_x < TW
    assert [number for _, number in found.cycles] == [1, 2]


def test_a_failed_migration_is_marked():
    told = scenario() | {"moves": [move(1, phase="Failed")]}
    (lane,) = timeline(story(told)).lanes
    assert lane.failed


def test_without_times_there_is_no_timeline():
    assert timeline(story({"moves": [{"vm": "a"}]})) is None
    assert utilisation(story({"cycles": [{"number": 1}]})) == []


def test_a_hundred_moves_are_cut_and_said():
    told = scenario() | {"moves": [move(1) for _ in range(100)]}
    found = timeline(story(told))
    assert (len(found.lanes), found.left_out) == (60, 40)


@pytest.mark.parametrize("value", [None, 5, "", "yesterday", "2026-01-01", "9999999-01-01T00:00:00Z", "2026-01-01T00:00:00"])
def test_what_is_no_moment_is_none(value):
    assert epoch(value) is None
