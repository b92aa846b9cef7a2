"""What checks are handed, where it is more than a call."""

from __future__ import annotations

from fixtures.cluster.api import Presence, Probe
from fixtures.cluster.discover.installation import ConsumersFound, Installation, PolicyFound
from fixtures.found import with_policy

FOUND = Probe("policy", Presence.PRESENT, "listed")
CONFIGMAP = {"metadata": {"name": "descheduler"}, "data": {"policy.yaml": "old: 1", "other": "x"}}


def test_a_policy_file_replaces_the_text_and_says_so(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text("new: 2\n")
    found = with_policy(Installation(PolicyFound(FOUND, CONFIGMAP, labelled=True), ConsumersFound(FOUND)), path)
    assert found.policy.text == "new: 2\n"
    assert found.policy.configmap is not None
    assert found.policy.configmap["data"]["other"] == "x"
    assert found.policy.labelled
    assert found.policy.notes == (f"the text is that of --policy={path}",)
    assert CONFIGMAP["data"] == {"policy.yaml": "old: 1", "other": "x"}


def test_a_policy_file_does_not_make_up_a_configmap(tmp_path):
    absent = Probe("policy", Presence.ABSENT, "none")
    found = Installation(PolicyFound(absent), ConsumersFound(absent))
    assert with_policy(found, tmp_path / "p.yaml") is found


CONSUMER = """
@check("REN-1", impact=RO, source="s")
def test_x(consumer):
    "X."
"""


def check_of(project, answer: str) -> tuple[str, str]:
    conftest = project.path / "conftest.py"
    text = conftest.read_text()
    conftest.write_text(text.replace("        return []\n", f"        {answer}\n"))
    project.checks(CONSUMER).run()
    row = project.row("REN-1")
    return row["outcome"], row["reason"]


def test_without_a_descheduler_its_checks_are_not_applicable(project):
    outcome, reason = check_of(project, "return []")
    assert outcome == "not-applicable"
    assert reason.startswith("descheduler is not installed: ")


def test_where_nobody_may_look_they_are_inconclusive(project):
    outcome, reason = check_of(project, "raise Denied('me may not list')")
    assert outcome == "inconclusive"
    assert "unknown" in reason
    assert "me may not list" in reason
