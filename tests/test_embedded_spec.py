"""``--embedded K=V,…``: platforms bring defaults, and what does not go together is refused."""

from __future__ import annotations

import pytest

from fixtures.embedded.installed.platforms import PLATFORMS
from fixtures.embedded_spec import PLATFORMS as KNOWN
from fixtures.embedded_spec import EmbeddedSpec, parse, spec_of
from fixtures.option_values import UsageError


def test_nothing_said_is_the_verified_combination() -> None:
    assert parse("platform=acp") == spec_of() == EmbeddedSpec()


def test_platforms_are_those_of_the_embedded_cluster_with_the_same_hyperconverged() -> None:
    assert set(KNOWN) == set(PLATFORMS)
    assert {name: spec_of(platform=name).hco for name in KNOWN} == {name: found.hco for name, found in PLATFORMS.items()}


def test_a_platforms_defaults_yield_to_what_is_said() -> None:
    found = parse("platform=openshift,descheduler=0.35.1,nodes=1")
    assert (found.descheduler, found.kubevirt, found.workload, found.nodes) == ("0.35.1", "1.7.1", "deployment", "1")
    assert parse("platform=upstream,hco=1.16").hco == "1.16"
    assert parse("hco=none").hco == "none"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("platform=openshft", r"--embedded platform: 'openshft' is not known \(did you mean openshift\?\); known: acp, upstream"),
        ("nodes=3", "--embedded nodes: '3' is not known; known: 1, 2"),
        ("workload=job", "--embedded workload: 'job' is not known.*; known: cronjob, deployment, none"),
        ("hco=nothing", "no facts about HyperConverged 'nothing'; known: 1.13, "),
        ("kubedescheduler=yes", "--embedded kubedescheduler: 'yes' is not known; known: absent, served"),
        ("evictionrequest=yes", "--embedded evictionrequest: 'yes' is not known; known: absent, served"),
        ("globalcluster=no", "--embedded globalcluster: 'no' is not known.*; known: given, none"),
        ("platform=upstream,globalcluster=given", "platform upstream has no global cluster; only acp"),
        ("platform=openshift,workload=cronjob", "installs a Deployment on platform openshift; known: deployment, none"),
        ("platform=openshift,kubedescheduler=absent", "no descheduler without it; give workload=none too"),
        ("platform=openshift,descheduler=0.36.0", "brings descheduler '0.36.0'; known: 0.33, 0.34, 0.35"),
        ("platform=harvester,hco=1.18.1", "'1.18.1' on platform harvester, which has no HyperConverged; known: none"),
        ("node=1", r"--embedded: 'node' is no key \(did you mean nodes\?\); known: kubernetes, kubevirt, hco, "),
    ],
)
def test_what_does_not_go_together_is_refused_with_what_does(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse(text)
