"""Figure 4: the import of vllm-gaudi's runner, patched against stock, with and without a warm `.pyc`; our finder.

    python bench/import_time.py --root TREE --python VENV/bin/python

The worker imports the real runner under the real vLLM once, with the hook switched off, and forgets that one module
again. Each job is a fork of that state: torch, vLLM and all else that the runner imports are loaded, of ours nothing
but the start-up modules, so the first import of our own modules counts. For stock our finder is taken out.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.machinery
import importlib.util
import os
import statistics
import sys
import time
import timeit
from pathlib import Path
from typing import Any

from measuring import Figures, arguments, paired_difference, paired_ratio, rounds, run
from worker import Worker, serve

RUNNER = "vllm_gaudi.v1.worker.hpu_model_runner"
OFF = "VLLM_GAUDI_SHADOW"
MADV_POPULATE_WRITE = 23  # Linux 5.14
CASES = {"warm": {"ours_warm": True, "theirs_warm": True}, "cold": {"ours_warm": True, "theirs_warm": False}}
CASES["all cold"] = {"ours_warm": False, "theirs_warm": False}


def measure(options: Any) -> Figures:
    """Pairs of stock and patched in each case; a pair is measured one after the other."""
    count = 2 if options.small else 41
    worker = Worker(options, __file__, OMP_NUM_THREADS="1")
    rows = {}
    for case, caches in CASES.items():
        for hook in (False, True):
            worker.ask("import_runner", hook=hook, **caches)  # so that what is warm is warm
        pairs = count if case == "warm" else max(2, count // 3)

        def once(kind: str, caches: dict[str, bool] = caches) -> float:
            return float(worker.ask("import_runner", hook=kind == "patched", **caches))

        seconds = rounds(pairs, ("stock", "patched"), once)
        rows[case] = {
            "pairs": pairs,
            "stock_ms": statistics.median(seconds["stock"]) * 1e3,
            "patched_ms": statistics.median(seconds["patched"]) * 1e3,
            "more_ms": paired_difference(seconds["patched"], seconds["stock"]) * 1e3,
            "ratio": paired_ratio(seconds["patched"], seconds["stock"]),
        }
    result = {
        "vllm": worker.setup.vllm_version,
        "lines": worker.ask("lines"),
        "rows": rows,
        "stages": worker.ask("stages", repeat=2 if options.small else 21),
        "finder_ns": worker.ask("finder", number=1000 if options.small else 10_000),
    }
    worker.close()
    return result


# What follows runs in the worker.


def import_runner(hook: bool, ours_warm: bool, theirs_warm: bool) -> float:
    """CPU seconds of the runner's import in this process, which has not imported it yet."""
    from gaudi_shadow.finder import installed_finder

    os.environ[OFF] = "1"
    if not hook:
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not installed_finder()]
    if not ours_warm or not theirs_warm:
        _forget_bytecode(("gaudi_shadow",) if not ours_warm else (), () if theirs_warm else (RUNNER,))
    _own_all_pages()
    start = time.process_time()
    module = importlib.import_module(RUNNER)
    seconds = time.process_time() - start
    assert (module.HPUModelRunner._execute_mm_encoder.__code__.co_filename != module.__file__) == hook
    return seconds


def _own_all_pages() -> None:
    """Copy every page that this fork shares: in a fresh process nobody pays for that during an import."""
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for line in Path("/proc/self/maps").read_text("utf-8").splitlines():
        span, rights, *_ = line.split()
        start, end = (int(each, 16) for each in span.split("-"))
        if rights == "rw-p":
            madvise(start, end - start, MADV_POPULATE_WRITE)  # where it cannot, the import pays for some pages more
    gc.freeze()


def _forget_bytecode(packages: tuple[str, ...], modules: tuple[str, ...]) -> None:
    """Make those packages and modules compile, and write no bytecode."""
    loaders: Any = importlib.machinery.SourceFileLoader
    stock_path_stats = loaders.path_stats

    def path_stats(loader: Any, path: str) -> Any:
        if loader.name in modules or loader.name.partition(".")[0] in packages:
            raise OSError  # what a loader without a cache raises
        return stock_path_stats(loader, path)

    loaders.path_stats = path_stats
    sys.dont_write_bytecode = True


def stages(repeat: int) -> dict[str, float]:
    """Milliseconds of CPU time: our modules' first import, and a decision when they are loaded (median of several)."""
    _own_all_pages()
    start = time.process_time()
    import gaudi_shadow.specs

    first = time.process_time() - start
    from gaudi_shadow.decide import decide
    from gaudi_shadow.stock import StockModule

    os.environ[OFF] = "1"
    stock = gaudi_shadow.specs.find_untouched_spec(RUNNER, sys.modules[RUNNER.rpartition(".")[0]].__path__)
    assert stock is not None and stock.loader is not None
    reading, deciding = [], []
    for _ in range(repeat):
        start = time.process_time()
        module = StockModule.from_loader(stock.loader, RUNNER, stock.origin or "")
        reading.append(time.process_time() - start)
        start = time.process_time()
        assert decide(module).code is not None
        deciding.append(time.process_time() - start)
    return {
        "our_modules_ms": first * 1e3,
        "code_and_source_ms": statistics.median(reading) * 1e3,
        "first_decision_ms": deciding[0] * 1e3,
        "decision_ms": statistics.median(deciding) * 1e3,
    }


def finder(number: int) -> float:
    """Nanoseconds that our finder takes to reject a name that is no target."""
    from gaudi_shadow.finder import installed_finder

    os.environ[OFF] = "1"
    found: Any = installed_finder()
    assert found is not None and found.find_spec("json.decoder") is None
    return min(timeit.repeat(lambda: found.find_spec("json.decoder", None), number=number, repeat=50)) / number * 1e9


def lines() -> int:
    """Of the runner's source."""
    spec = importlib.util.find_spec(RUNNER)
    assert spec is not None
    loader: Any = spec.loader
    return len(loader.get_source(RUNNER).splitlines())


if __name__ == "__main__":
    if sys.argv[1:] != ["--worker"]:
        sys.exit(run("import_time", arguments(__doc__, real=True).parse_args(), measure))
    os.environ[OFF] = "0"
    importlib.import_module(RUNNER)
    del sys.modules[RUNNER]
    gc.collect()
    sys.exit(serve({"import_runner": import_runner, "stages": stages, "finder": finder, "lines": lines}))
