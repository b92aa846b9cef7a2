"""Objects recorded from a real Kubernetes 1.36 pass the vendored schemas, the checks and the defaults unchanged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fixtures.embedded import defaults
from fixtures.embedded.api import registry, schema, validate
from fixtures.embedded.clock import Clock
from fixtures.embedded.store import Store, copy
from fixtures.kube.resources import Obj

RECORDED = Path(__file__).parent / "recorded"
SERVED = {(served.resource.api_version, served.resource.kind): served for served, _ in registry.builtins()}


def objects(path: Path) -> Iterator[Obj]:
    document = yaml.safe_load(path.read_text())
    for obj in document.get("items", [document]):
        yield json.loads(json.dumps(obj))


CASES = [
    pytest.param(obj, id=f"{obj['kind']}-{obj['metadata']['name']}") for path in sorted(RECORDED.iterdir()) for obj in objects(path)
]


@pytest.mark.parametrize("obj", CASES)
def test_recorded_object_is_as_the_server_would_keep_it(obj: Obj) -> None:
    served = SERVED[(obj["apiVersion"], obj["kind"])]
    cleaned, found = schema.builtin(obj, served.definition, registry.schemas())
    assert found == schema.Findings()
    assert defaults.refill(served.storage, copy(cleaned)) == cleaned
    validate.check(served, cleaned, None)


@pytest.mark.parametrize("obj", [case for case in CASES if case.values[0]["kind"] == "Job"])  # type: ignore[index]
def test_job_gets_the_selector_and_labels_that_were_recorded(obj: Obj) -> None:
    bare = copy(obj)
    bare["spec"].pop("selector")
    labels = bare["spec"]["template"]["metadata"]["labels"]
    generated = {key: labels.pop(key) for key in list(labels) if key.endswith(("controller-uid", "job-name"))}
    made = Store(Clock(epoch=0)).create(SERVED[("batch/v1", "Job")].resource, bare)
    uid = made["metadata"]["uid"]
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    wanted = {key: uid if key.endswith("uid") else obj["metadata"]["name"] for key in generated}
    assert made["spec"]["template"]["metadata"]["labels"] == {**labels, **wanted}
