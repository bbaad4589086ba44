"""Measure in which processes each route is active, and print the table of docs/activation.md.

    python tests/activation/measure_table.py

Each cell is a real process in a virtual environment with a stand-in release; "active" means that both target functions
were the overlay's.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from activation.places import MARKER, new_folder, path_of, run
from activation.shared import bare_venv, checkout, piped_venv, target_folder
from conftest import clean_environment


@dataclass(frozen=True)
class Route:
    """One way for the hook to come into a process.

    Attributes:
        title: the column's head.
        python: the interpreter that has the stand-in release.
        cwd: the current folder, which `python -m` puts first on sys.path.
        path: what the route has on PYTHONPATH; none when it needs nothing there.
        prefix: the words before a command line.
        options: what the marker is told.
    """

    title: str
    python: Path
    cwd: Path
    path: Sequence[Path] = ()
    prefix: Sequence[str] = ()
    options: Sequence[str] = ()

    def ask(self, *words: str | Path, more_path: Sequence[Path] = (), env: dict[str, str] | None = None) -> list[dict]:
        """Run a command line under the route, and give the answers that it printed."""
        entries = [*self.path, *more_path]
        variables = {"PYTHONPATH": path_of(*entries)} if entries else {}
        done = run(*self.prefix, *words, *self.options, env=env or clean_environment(**variables), cwd=self.cwd)
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def _script(*words: str) -> Callable[[Route, Path], list[dict]]:
    return lambda route, marker: route.ask(route.python, marker, *words)


def _flag(*flags: str) -> Callable[[Route, Path], list[dict]]:
    return lambda route, marker: route.ask(route.python, *flags, marker)


def _torchrun(route: Route, marker: Path) -> list[dict]:
    spec = find_spec("torch")
    assert spec is not None and spec.origin is not None, "torch is in the extra `test`"
    ranks = ("--nnodes=1", "--nproc-per-node=2", "--standalone")
    command = (route.python, "-m", "torch.distributed.run", *ranks, marker)
    return route.ask(*command, more_path=[_without_us(Path(spec.origin).parent.parent)])


@functools.cache
def _without_us(site_packages: Path) -> Path:
    """The libraries in a site-packages, without the copy of ours that may be installed there too."""
    folder = new_folder()
    for each in site_packages.iterdir():
        if not each.name.startswith("gaudi_shadow"):
            (folder / each.name).symlink_to(each)
    return folder


def _clean(route: Route, marker: Path) -> list[dict]:
    """As systemd starts a service: a few variables of its own, none of the caller's."""
    few = ("env", "-i", "PATH=/usr/bin:/bin", "LANG=C.UTF-8")
    return route.ask(*few, route.python, marker)


PROCESSES: dict[str, Callable[[Route, Path], list[dict]]] = {
    "`python script.py`": _script(),
    "`python -m module`": lambda route, marker: route.ask(route.python, "-m", marker.stem),
    "multiprocessing, fork": _script("fork"),
    "multiprocessing, spawn": _script("spawn"),
    "multiprocessing, forkserver": _script("forkserver"),
    "subprocess, same environment": _script("subprocess"),
    "subprocess, cleared environment": _script("cleared"),
    "`torchrun`, two local ranks": _torchrun,
    "a service with a clean environment (systemd, `env -i`)": _clean,
    "`python -E`": _flag("-E"),
    "`python -E`, then spawn": lambda route, marker: route.ask(route.python, "-E", marker, "spawn"),
    "`python -I`": _flag("-I"),
    "`python -S`": _flag("-S"),
}


@dataclass
class Table:
    """What was measured: (process, route) -> whether every answer of the cell was patched whole."""

    routes: list[str]
    cells: dict[tuple[str, str], bool] = field(default_factory=dict)

    def markdown(self) -> str:
        """The table as docs/activation.md has it."""
        head = [f"| process | {' | '.join(self.routes)} |", "| --- |" + " --- |" * len(self.routes)]
        for process in PROCESSES:
            words = ("active" if self.cells[process, route] else "no" for route in self.routes)
            head.append(f"| {process} | {' | '.join(words)} |")
        return "\n".join(head) + "\n"


def make_routes() -> list[Route]:
    """Prepare every route."""
    bare, nowhere = bare_venv().python, new_folder()
    run_command = [str(bare), "-m", "gaudi_shadow", "run", "--"]
    return [
        Route("pip install (`.pth`)", piped_venv().python, nowhere),
        Route("checkout on PYTHONPATH", bare, nowhere, [checkout()]),
        Route("`inject` on PYTHONPATH", bare, nowhere, [target_folder() / "gaudi_shadow" / "inject"]),
        Route("`gaudi-shadow run`", bare, checkout(), prefix=run_command),
        Route("vLLM plugin alone", bare, nowhere, [target_folder()], options=["load-plugins"]),
    ]


def measure() -> Table:
    """Measure every cell."""
    routes = make_routes()
    marker = new_folder() / MARKER.name
    marker.write_bytes(MARKER.read_bytes())
    table = Table([route.title for route in routes])
    with ThreadPoolExecutor(2) as pool:
        pending = {
            (process, route.title): pool.submit(ask, route, marker)
            for process, ask in PROCESSES.items()
            for route in routes
        }
        for cell, answers in pending.items():
            table.cells[cell] = _is_active(answers.result())
    return table


def _is_active(answers: list[dict]) -> bool:
    patched = {flag for answer in answers for flag in answer["patched"]}
    assert answers and len(patched) == 1, f"neither active nor inactive: {answers}"
    return patched.pop()


if __name__ == "__main__":
    print(measure().markdown(), end="")
