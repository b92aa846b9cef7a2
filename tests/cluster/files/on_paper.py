"""Judges files in this process: every read-only check of the project is called with what pytest would hand it.

A check's arguments are resolved through the suite's own fixture functions, so a new check is covered without a word here.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import conformance
from fixtures import exercises, selection, subjects
from fixtures.checks import Impact, Outcome, Spec, Status, Verdict, judge, scope_of
from fixtures.cluster.files import FilesCluster, open_files
from fixtures.found import Found
from fixtures.options import parse
from fixtures.outcomes import ending

DATA = Path(__file__).parents[2] / "data"


@cache
def checks() -> tuple[tuple[Spec, Callable[..., object]], ...]:
    found = []
    for info in pkgutil.iter_modules(conformance.__path__):
        module = importlib.import_module(f"conformance.{info.name}")
        for function in vars(module).values():
            marks = [m for m in getattr(function, "pytestmark", []) if m.name == "check"]
            found += [(m.args[0], function) for m in marks]
    return tuple(sorted(found, key=lambda pair: selection.order(pair[0])))


@cache
def handed_out() -> Mapping[str, Callable[..., Any]]:
    modules: tuple[ModuleType, ...] = (subjects, exercises)
    return {
        name: found._get_wrapped_function()
        for module in modules
        for name, found in vars(module).items()
        if hasattr(found, "_get_wrapped_function")
    }


@dataclass(frozen=True)
class Judged:
    """Outcomes by check id, the verdict, and the cluster that was judged."""

    cluster: FilesCluster
    outcomes: Mapping[str, Outcome]
    verdict: Verdict

    def those(self, *wanted: Status) -> set[str]:
        return {i for i, o in self.outcomes.items() if o.status in wanted}

    @property
    def failed(self) -> set[str]:
        return self.those(Status.FAILED)

    def reason(self, check: str) -> str:
        return self.outcomes[check].reason


def judged(path: Path, **options: str) -> Judged:
    """The read-only checks on these files. A check that breaks is an error here, not an outcome."""
    settings = parse({"cluster": "files", "manifests": str(path), **options})
    cluster = open_files(settings)
    found = Found(cluster, settings)
    given = {
        "cluster": cluster,
        "settings": settings,
        "found": found,
        "run": None,
        "request": None,
        "evidence": lambda kind, ref, body: None,
    }
    outcomes, selected = {}, []
    for spec, function in checks():
        level = spec.level_given(found.facts)
        if spec.impact is not Impact.READ_ONLY or spec.needs - {c.value for c in cluster.can}:
            continue
        if why := selection.unrecorded(spec, cluster):
            outcomes[spec.id] = Outcome(spec.id, Status.NOT_SELECTED, why, level=level)
            continue
        selected.append(spec)
        end = ending(*_called(function, given))
        assert not end.suite_error, f"{spec.id}: {end.reason}"
        outcomes[spec.id] = Outcome(spec.id, end.status, end.reason, level=level)
    return Judged(cluster, outcomes, judge(outcomes.values(), scope_of("files", selected)))


def _called(function: Callable[..., object], given: dict[str, Any]) -> tuple[BaseException | None, str]:
    phase = "setup"
    try:
        arguments = {name: _handed(name, given) for name in inspect.signature(function).parameters}
        phase = "call"
        function(**arguments)
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # pytest's own outcomes are no Exceptions
        return error, phase
    return None, phase


def _handed(name: str, given: dict[str, Any]) -> Any:
    if name not in given:
        function = handed_out()[name]
        given[name] = function(**{n: _handed(n, given) for n in inspect.signature(function).parameters})
    return given[name]
