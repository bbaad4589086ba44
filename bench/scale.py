"""Figure 5: one function grafted in modules of 1,000 to 100,000 lines, against reading and compiling the file.

    python bench/scale.py

The modules are generated: our stand-in's merge function in the middle of functions that do nothing. A copy of our
package that accepts the stand-in decides about each, in this process, where its modules are loaded.
"""

from __future__ import annotations

import marshal
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from measuring import Figures, arguments, rounds, run

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
TARGET = "vllm_gaudi.models.utils"
FILLER = '''

def filler_{number}(first, second=None, *rest, **named):
    """Nothing of it is ever called."""
    total = [first, second, *rest]
    for name, value in sorted(named.items()):
        if value is not None and name != "filler_{number}":
            total.append((name, value))
    return total
'''


def module_text(standin: str, lines: int) -> str:
    """The stand-in's text between fillers, `lines` lines long or a few more."""
    needed = max(0, lines - standin.count("\n"))
    fillers = [FILLER.format(number=number) for number in range(math.ceil(needed / FILLER.count("\n")))]
    middle = len(fillers) // 2
    return "".join([*fillers[:middle], "\n", standin, *fillers[middle:]])


def steps(path: Path) -> dict[str, Callable[[], object]]:
    """What is timed: reading the file's text, compiling it, loading its bytecode, and deciding with the graft."""
    from gaudi_shadow.decide import decide
    from gaudi_shadow.stock import StockModule

    loader = SourceFileLoader(TARGET, str(path))
    text, code = loader.get_source(TARGET) or "", loader.get_code(TARGET)
    bytecode = marshal.dumps(code)

    def graft() -> None:
        decision = decide(StockModule(TARGET, str(path), code, text, loader.get_data))
        assert decision.code is not None, decision

    return {
        "read": lambda: loader.get_source(TARGET),
        "compile": lambda: compile(text, str(path), "exec", dont_inherit=True),
        "load bytecode": lambda: marshal.loads(bytecode),
        "graft": graft,
    }


def measure(options: Any) -> Figures:
    """CPU time of each step for each length."""
    from gaudi_shadow import catalog
    from gaudi_shadow.demo.standin import write_release
    from gaudi_shadow.demo.workshop import adopt, copy_package

    lengths = [200, 400] if options.small else [1000, 3000, 10_000, 30_000, 100_000]
    folder = Path(tempfile.mkdtemp(prefix="gaudi-shadow-bench-"))
    tree = write_release(folder / "tree", "v0.30.0")
    package = copy_package(folder / "hook") / "gaudi_shadow"
    adopt(package / "overlays", "v0.30.0", tree)
    catalog.PACKAGE = str(package)
    path = tree.joinpath(*TARGET.split(".")).with_suffix(".py")
    standin = path.read_text("utf-8")
    rows: list[dict[str, Any]] = []
    for lines in lengths:
        path.write_text(module_text(standin, lines), "utf-8")
        done = steps(path)

        def once(name: str, done: dict[str, Callable[[], object]] = done) -> float:
            start = time.process_time()
            done[name]()
            return time.process_time() - start

        seconds = rounds(2 if options.small else 11, done, once)
        times = {name: statistics.median(values) * 1e3 for name, values in seconds.items()}
        rows.append({"lines": path.read_text("utf-8").count("\n"), "bytes": path.stat().st_size, "ms": times})
    growth = {name: rows[-1]["ms"][name] / rows[0]["ms"][name] for name in rows[0]["ms"]}
    return {"rows": rows, "growth": growth, "lines_growth": rows[-1]["lines"] / rows[0]["lines"]}


if __name__ == "__main__":
    sys.exit(run("scale", arguments(__doc__).parse_args(), measure))
