"""A run of the scenario as a process of its own: ``player.py KUBECONFIG FOLDER`` plays once against a live cluster."""

from __future__ import annotations

import sys
from pathlib import Path

from fixtures.checks import Impact
from fixtures.cluster.live import connect_live
from fixtures.options import Settings
from tests.scenario import cases


def main(kubeconfig: str, folder: str) -> int:
    cluster = connect_live(Settings(cluster="live", cluster_kubeconfig=Path(kubeconfig), allow=Impact.DISRUPTIVE))
    try:
        record = cases.scenario(cluster, Path(folder), "r9").play()
    finally:
        cluster.close()
    print(record.reached.name, record.stopped_because, record.rollback)
    return 0 if record.rollback.done else 7


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
