"""vllm-gaudi's own unit tests, stock and with the hook: one command prints the difference, which must be empty.

    python tests/real/upstream_tests.py --root TREE --python VENV/bin/python [--work DIR]

TREE is the source tree of a release, with its tests/; those in TESTS run on a CPU. Exit code 0: the same tests pass,
fail and are skipped in both; 1: they do not, or too few ran; 2: something is missing. A test that stock itself passes
and fails in turn is named, and is no difference.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import scenarios
from environments import Missing, Setup, find

TESTS = ["worker", "multimodal", "test_bucketing.py", "test_utils.py", "test_flags.py", "test_vision_resolutions.py"]
ROUTES = ("stock", "PYTHONPATH", "wheel")
TIMEOUT = 1800
FEWEST_PASSED = 100  # 124 passed on v0.26.0 when this was written: a run in which little passes compares nothing


# A plugin for pytest that runs each test so many times; some of the release's own draw numbers without a seed.
AGAIN = """
def pytest_generate_tests(metafunc):
    metafunc.fixturenames.append("time_of_many")
    metafunc.parametrize("time_of_many", range({times}))
"""
TIMES = 200


def run_tests(setup: Setup, route: str) -> dict[str, str]:
    """Run the release's tests; test -> "passed", "failed", "error" or "skipped".

    Raises:
        Missing: pytest gave no results.
    """
    return dict(_run(setup, route, [f"tests/unit_tests/{name}" for name in TESTS]))


def is_steady(setup: Setup, test: str) -> bool:
    """Whether stock alone gives a test the same outcome many times in a row."""
    (setup.work / "time_of_many.py").write_text(AGAIN.format(times=TIMES), "utf-8")
    parts = test.partition("::")[0].split(".")
    length = next(n for n in range(len(parts), 0, -1) if setup.tree.joinpath(*parts[:n]).with_suffix(".py").exists())
    function = test.partition("::")[2].partition("[")[0]
    node = "::".join(["/".join(parts[:length]) + ".py", *parts[length:], function])
    outcomes = _run(setup, "stock", ["-p", "time_of_many", node], path=str(setup.work))
    return len({outcome for _, outcome in outcomes}) < 2


def _run(setup: Setup, route: str, arguments: list[str], path: str = "") -> list[tuple[str, str]]:
    results = setup.work / f"upstream-{route}.xml"
    results.unlink(missing_ok=True)
    command = [str(setup.interpreter(route)), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={results}"]
    budget = {} if route == "stock" else {"VLLM_HPU_MM_ENCODER_MAX_PATCHES": str(scenarios.BUDGET)}
    environ = setup.environ(route, **budget)
    if path:
        environ["PYTHONPATH"] += os.pathsep + path
    log = setup.work / f"upstream-{route}.log"
    with log.open("w") as file:
        subprocess.run(
            [*command, *arguments],
            cwd=setup.tree,
            env=environ,
            stdout=file,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT,
            check=False,
        )
    if not results.exists():
        raise Missing(f"pytest gave no results in {setup.python}; see {log}")
    return [_outcome(case) for case in ElementTree.parse(results).iter("testcase")]


def _outcome(case: ElementTree.Element) -> tuple[str, str]:
    outcomes = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
    names = {"failure": "failed"}
    outcome = names.get(outcomes[0], outcomes[0]) if outcomes else "passed"
    return f"{case.get('classname')}::{case.get('name')}", outcome


def in_words(outcomes: dict[str, str]) -> str:
    """Counts, such as "124 passed, 3 failed"."""
    values = list(outcomes.values())
    return ", ".join(f"{values.count(kind)} {kind}" for kind in dict.fromkeys(sorted(values, key="pfes".find)))


def differences(stock: dict[str, str], hooked: dict[str, str]) -> dict[str, str]:
    """Each test whose outcome is not the same, with a line that says how."""
    return {
        test: f"{test}: stock {stock.get(test, 'not run')}, hooked {hooked.get(test, 'not run')}"
        for test in sorted({*stock, *hooked})
        if stock.get(test) != hooked.get(test)
    }


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=os.environ.get("GAUDI_FIXES_ROOT"), help="or GAUDI_FIXES_ROOT")
    parser.add_argument("--python", default=os.environ.get("GAUDI_REAL_PYTHON"), help="or GAUDI_REAL_PYTHON")
    parser.add_argument("--work", type=Path, help="keeps logs and results; else a temporary folder")
    options = parser.parse_args()
    try:
        setup = find(options.root, options.python, options.work or Path(tempfile.mkdtemp(prefix="gaudi-shadow-real-")))
        tests = Path(options.root) / "tests"
        if not (tests / "unit_tests").is_dir():
            raise Missing(f"{options.root} holds no tests/unit_tests: a source tree of a release is needed")
        shutil.copytree(tests, setup.tree / "tests")
        stock = run_tests(setup, "stock")
        print(f"vLLM {setup.vllm_version}, stock: {in_words(stock)}", flush=True)
        found = []
        for route in ROUTES[1:]:
            hooked = run_tests(setup, route)
            print(f"vLLM {setup.vllm_version}, hook by {route}: {in_words(hooked)}", flush=True)
            for test, line in differences(stock, hooked).items():
                if is_steady(setup, test):
                    found.append(f"{route}: {line}")
                else:
                    print(f"no difference: {test} has several outcomes in stock alone, {TIMES} times in a row")
    except Missing as error:
        print(f"tests/real: {error}", file=sys.stderr)
        return 2
    print("\n".join(["difference:", *found]) if found else "difference: none")
    return 1 if found or list(stock.values()).count("passed") < FEWEST_PASSED else 0


if __name__ == "__main__":
    sys.exit(main())
