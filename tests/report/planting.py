"""A pytest plugin that plants secrets everywhere in an embedded cluster before anything is read from it.

``PLANTED_LIST`` names a file to which it writes every secret value, the cluster's own credentials included.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fixtures.kube.resources import (
    CONFIGMAPS,
    CRONJOBS,
    DEPLOYMENTS,
    EVENTS,
    HYPERCONVERGEDS,
    KUBEVIRTS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCEPATCHES,
    SECRETS,
    VALIDATING_WEBHOOKS,
    VMIS,
    VMS,
)

JWT = "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6cGxhbnRlZCJ9.cGxhbnRlZC1zaWduYXR1cmU"
BEARER = "plantedBearer0123456789"
PASSWORD = "planted-Passw0rd-1"
PROXY_PASSWORD = "planted-proxy-pw"
SECRET_DATA = "planted secret data of a Secret"
CLOUD_INIT = "planted-guest-password"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIplantedkeymaterial0123456789\n-----END RSA PRIVATE KEY-----"
CLIENT_KEY = base64.b64encode(KEY.encode()).decode()


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


KUBECONFIG = yaml.safe_dump(
    {
        "apiVersion": "v1",
        "kind": "Config",
        "users": [{"name": "x", "user": {"token": "plantedUserToken99", "client-key-data": CLIENT_KEY, "password": PASSWORD}}],
    }
)
USER_DATA = f"#cloud-config\npassword: {CLOUD_INIT}\nchpasswd: {{expire: false}}\n"
VALUES = (
    JWT,
    BEARER,
    PASSWORD,
    PROXY_PASSWORD,
    SECRET_DATA,
    b64(SECRET_DATA),
    CLOUD_INIT,
    "MIIplantedkeymaterial0123456789",
    CLIENT_KEY,
    "plantedUserToken99",
    b64(KUBECONFIG),
    b64(USER_DATA),
)
ANNOTATIONS = {
    "example.com/api-token": JWT,
    "example.com/note": f"curl -H 'Authorization: Bearer {BEARER}' https://me:{PROXY_PASSWORD}@host/; password={PASSWORD}",
    "example.com/kubeconfig": b64(KUBECONFIG),
    "example.com/config": KUBECONFIG,
    "kubectl.kubernetes.io/last-applied-configuration": json.dumps({"kind": "Secret", "data": {"a": b64(SECRET_DATA)}, "p": KEY}),
}
ENVIRONMENT = [{"name": "DB_PASSWORD", "value": PASSWORD}, {"name": "HTTPS_PROXY", "value": f"http://u:{PROXY_PASSWORD}@proxy:1"}]
EVERYWHERE = (
    CONFIGMAPS,
    CRONJOBS,
    DEPLOYMENTS,
    HYPERCONVERGEDS,
    KUBEVIRTS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCEPATCHES,
    VALIDATING_WEBHOOKS,
    VMIS,
    VMS,
)


@pytest.hookimpl(wrapper=True)
def pytest_rebalance_learn(cluster: Any) -> Generator[None, object, object]:
    """Plant before the run looks around."""
    plant(cluster.world.store)
    Path(os.environ["PLANTED_LIST"]).write_text(json.dumps([*VALUES, *credentials(cluster.world.kubeconfig())]))
    return (yield)


def credentials(kubeconfig: dict[str, Any]) -> list[str]:
    """What a kubeconfig's users hold."""
    users = [u["user"] for u in kubeconfig["users"]]
    return [str(u[k]) for u in users for k in ("token", "client-key-data", "password") if u.get(k)]


def plant(store: Any) -> None:
    """Annotations on everything, Secrets, environment, cloud-init, conditions, Events, comments in the policy."""
    for resource in EVERYWHERE:
        for found in list(store.list(resource)):
            meta = found["metadata"]
            store.edit(resource, meta.get("namespace"), meta["name"], _annotate)
    for ns in ("descheduler", "kubevirt", "tenant-a"):
        secret = {"metadata": {"name": "planted", "namespace": ns}, "type": "Opaque", "data": {"kubeconfig": b64(SECRET_DATA)}}
        store.create(SECRETS, {"apiVersion": "v1", "kind": "Secret", **secret})
        event = {"metadata": {"name": "planted", "namespace": ns}, "reason": "X", "message": f"token: {JWT} bearer {BEARER}"}
        store.create(EVENTS, {"apiVersion": "v1", "kind": "Event", "involvedObject": {}, **event})
    store.edit(CONFIGMAPS, "descheduler", "descheduler", _comment)
    store.edit(CRONJOBS, "descheduler", "descheduler", _environment)
    for vm in list(store.list(VMS)):
        store.edit(VMS, vm["metadata"]["namespace"], vm["metadata"]["name"], _cloud_init)


def _annotate(obj: dict[str, Any]) -> None:
    obj["metadata"].setdefault("annotations", {}).update(ANNOTATIONS)


def _comment(obj: dict[str, Any]) -> None:
    obj["data"]["policy.yaml"] += f"# password: {PASSWORD}\n# {JWT}\n"
    obj["data"]["other"] = KUBECONFIG


def _environment(obj: dict[str, Any]) -> None:
    container = obj["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
    container.setdefault("env", []).extend(ENVIRONMENT)


def _cloud_init(obj: dict[str, Any]) -> None:
    spec = obj["spec"]["template"]["spec"]
    spec.setdefault("volumes", []).extend(
        [
            {"name": "one", "cloudInitNoCloud": {"userData": USER_DATA}},
            {"name": "two", "cloudInitNoCloud": {"userDataBase64": b64(USER_DATA)}},
        ]
    )
