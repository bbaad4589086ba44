"""Measure everything, draw the pictures and write the tables of docs/benchmarks.md.

    python bench/all.py --v26 TREE VENV/bin/python --v30 TREE VENV/bin/python [--only NAME,...] [--small]

TREE is the source tree of a vllm-gaudi release, and the Python has the vLLM that belongs to it: 0.26.0 for the import
of the runner, 0.30.0 for encoder, merge and throughput (see README.md). A bench whose release is not given is left out,
with a line that says so. Run it when the machine has nothing else to do; it takes about twenty minutes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from measuring import RESULTS

HERE = Path(__file__).resolve().parent
NEEDS = {
    "startup_time": None,
    "scale": None,
    "import_time": "v26",
    "merge_time": "v30",
    "throughput": "v30",
    "encoder_memory": "v30",
}


def main() -> int:
    """The command; exit code 1 when a bench failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for release, version in (("v26", "0.26.0"), ("v30", "0.30.0")):
        parser.add_argument(
            f"--{release}",
            nargs=2,
            metavar=("TREE", "PYTHON"),
            help=f"a release for vLLM {version}, and a Python that has that vLLM",
        )
    parser.add_argument("--only", default=",".join(NEEDS), help="benches, of: " + ", ".join(NEEDS))
    parser.add_argument("--small", action="store_true", help="tiny sizes, to see whether all runs; draws nothing")
    parser.add_argument("--results", type=Path, help="for the JSON (default: bench/results; with --small a new folder)")
    options = parser.parse_args()
    names = options.only.split(",")
    if unknown := set(names) - set(NEEDS):
        parser.error(f"no such bench: {', '.join(sorted(unknown))}")
    results = options.results or (Path(tempfile.mkdtemp(prefix="gaudi-shadow-bench-")) if options.small else RESULTS)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="gaudi-shadow-bench-") as work:
        for name in names:
            given = getattr(options, NEEDS[name] or "", ())
            if given is None:
                print(f"bench: {name} is left out: give --{NEEDS[name]}", file=sys.stderr)
                continue
            words = ["--root", given[0], "--python", given[1], "--work", f"{work}/{NEEDS[name]}"] if given else []
            words += ["--results", str(results), *(["--small"] if options.small else [])]
            failed += subprocess.run([sys.executable, HERE / f"{name}.py", *words], check=False).returncode != 0
    if not options.small and results == RESULTS:
        for name in ("figures", "page"):
            failed += subprocess.run([sys.executable, HERE / f"{name}.py"], check=False).returncode != 0
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
