"""A pytest plugin: what a kubelet mounts into a Pod lies in ``$SERVICE_ACCOUNT_FOLDER`` (``token``, ``ca.crt``)."""

from __future__ import annotations

import os
from pathlib import Path

from kubernetes.config import incluster_config

from fixtures.cluster import kubeconfigs

FOLDER = Path(os.environ["SERVICE_ACCOUNT_FOLDER"])
kubeconfigs._TOKEN = FOLDER / "token"
incluster_config.SERVICE_TOKEN_FILENAME = str(FOLDER / "token")
incluster_config.SERVICE_CERT_FILENAME = str(FOLDER / "ca.crt")
