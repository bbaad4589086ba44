"""Figure 3: the start of a Python with the hook, by each route, against the same Python without it.

    python bench/startup_time.py

`python -c pass` in virtual environments with nothing but our wheel, or with nothing and our folder on PYTHONPATH. The
control is a `.pth` that only imports os. Needs the extra `test`, which builds the wheel.
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measuring import Figures, arguments, paired_difference, paired_ratio, rounds, run

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
SHOW = "import sys, json; print(json.dumps([list(sys.modules), [type(f).__name__ for f in sys.meta_path]]))"
ASK_RUN = "import os; print(os.environ['PYTHONPATH'])"


@dataclass(frozen=True)
class Route:
    """A Python and what is on its PYTHONPATH."""

    python: Path
    path: str = ""
    environ: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        from conftest import clean_environment

        object.__setattr__(self, "environ", clean_environment(**({"PYTHONPATH": self.path} if self.path else {})))

    def start(self) -> tuple[float, float]:
        """Start it once; wall time and CPU time in seconds."""
        start = time.perf_counter()
        pid = os.posix_spawn(self.python, [str(self.python), "-c", "pass"], self.environ)
        _, status, used = os.wait4(pid, 0)
        wall = time.perf_counter() - start
        assert status == 0, self
        return wall, used.ru_utime + used.ru_stime

    def modules(self) -> tuple[list[str], bool]:
        """What is in sys.modules after the start, and whether our finder is there."""
        shown = subprocess.run(
            [self.python, "-c", SHOW], env=self.environ, capture_output=True, text=True, check=True
        ).stdout
        names, finders = json.loads(shown)
        return names, "ShadowFinder" in finders


def routes(folder: Path) -> dict[str, Route]:
    """Each route, in Pythons made for it."""
    from activation.places import build_wheel, make_venv, run
    from conftest import CHECKOUT

    bare, piped, control = (make_venv(folder / name) for name in ("bare", "piped", "control"))
    for venv in (bare, piped, control):
        (venv.site_packages / "packaging").mkdir()  # the wheel's only dependency, which no start imports
    wheel = build_wheel(folder / "wheel")
    piped.pip("install", "--no-deps", wheel)
    (control.site_packages / "control.pth").write_text("import os\n", "utf-8")
    bare.pip("install", "--no-deps", "--target", folder / "target", wheel)
    inject = str(folder / "target" / "gaudi_shadow" / "inject")
    command = (piped.folder / "bin" / "gaudi-shadow", "run", "--", piped.python, "-c", ASK_RUN)
    return {
        "none": Route(bare.python),
        "control": Route(control.python),
        "pip": Route(piped.python),
        "checkout": Route(bare.python, str(CHECKOUT)),
        "inject": Route(bare.python, inject),
        "run": Route(piped.python, run(*command).stdout.strip()),
    }


def measure(options: Any) -> Figures:
    """Every route once a round, after one start that leaves its bytecode behind."""
    if not importlib.util.find_spec("hatchling"):
        sys.exit("bench: startup_time builds the wheel and needs hatchling: install '.[test]' for this Python")
    from activation.places import new_folder

    count = 3 if options.small else 101
    found = routes(new_folder())
    before = set(found["none"].modules()[0])
    rows: dict[str, dict[str, Any]] = {}
    for name, route in found.items():
        names, active = route.modules()
        assert active == (name not in ("none", "control")), name
        rows[name] = {"modules_added": sorted(set(names) - before)}
    cpu: dict[str, list[float]] = {name: [] for name in found}

    def once(name: str) -> float:
        wall, used = found[name].start()
        cpu[name].append(used)
        return wall

    wall = rounds(count, found, once)
    for name, row in rows.items():
        row |= {
            "wall_ms": statistics.median(wall[name]) * 1e3,
            "cpu_ms": statistics.median(cpu[name]) * 1e3,
            "wall_ratio": paired_ratio(wall[name], wall["none"]),
            "cpu_ratio": paired_ratio(cpu[name], cpu["none"]),
            "cpu_ms_more": paired_difference(cpu[name], cpu["none"]) * 1e3,
        }
    return {"rounds": count, "rows": rows}


if __name__ == "__main__":
    sys.exit(run("startup_time", arguments(__doc__).parse_args(), measure))
