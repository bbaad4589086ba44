"""Mutate the target modules thousands of times and see that a fix is applied to the known function only.

    python bench/drift_fuzz.py [--root DIR] [--count N] [--seed S] [--module NAME]

DIR is a release's site-packages or source tree; without it the stand-in releases are mutated. Each mutant is imported
without us, with us, and with us under strict (see drift_oracle.py). It needs neither torch nor vLLM:
permissive_imports.py stands for both.
Exit code 0 when nothing is wrong, 1 else.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import permissive_imports
from drift_file_mutations import FILES
from drift_oracle import Oracle, TooLong, Verdict
from drift_structure_mutations import STRUCTURE
from drift_target import FUNCTIONS, Mutant, Mutation, Target
from drift_text_mutations import TEXT

CHECKOUT = Path(__file__).resolve().parent.parent
MUTATIONS: list[Mutation] = [*TEXT, *FILES, *STRUCTURE]
FAULTS = ("misapplied", "half patched", "crashed", "not refused", "missed", "noise")


def forget_what_is_installed() -> None:
    """Be a Python without us, whatever this environment has installed and set: the judge compares with stock."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != "gaudi_shadow.finder"]
    for name in [name for name in os.environ if name.startswith("VLLM_GAUDI_SHADOW")]:
        del os.environ[name]
    _forget_modules()


def use_package(hook: Path) -> None:
    """Import gaudi_shadow from `hook` from now on."""
    _forget_modules()
    sys.path.insert(0, str(hook))


def _forget_modules() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "gaudi_shadow"]:
        del sys.modules[name]


def standins(folder: Path) -> tuple[Path, list[Path]]:
    """A copy of the package that knows the stand-in releases, and their trees."""
    sys.path.insert(0, str(CHECKOUT))
    from gaudi_shadow.demo.standin import GROUPING_NAMES, write_release
    from gaudi_shadow.demo.workshop import adopt, copy_package

    hook = copy_package(folder / "hook")
    trees = [write_release(folder / release, release) for release in GROUPING_NAMES]
    for release, tree in zip(GROUPING_NAMES, trees, strict=True):
        adopt(hook / "gaudi_shadow" / "overlays", release, tree)
    return hook, trees


def mutants(target: Target, count: int, dice: random.Random) -> Iterator[Mutant]:
    """So many mutants, every kind among them at least once if there are enough."""
    drawn = dice.choices(MUTATIONS, [mutation.weight for mutation in MUTATIONS], k=max(0, count - len(MUTATIONS)))
    for mutation in [*MUTATIONS, *drawn][:count]:
        yield mutation.apply(target, dice)


class Tally:
    """What came of all mutants."""

    def __init__(self) -> None:
        self.kinds: dict[str, Counter[str]] = {}
        self.total: Counter[str] = Counter()
        self.examples: list[str] = []

    def add(self, mutant: Mutant, verdict: Verdict) -> None:
        """Count one."""
        words = ["mutants", "applied" if verdict.applied else "stock"]
        words += [] if verdict.importable else ["not importable"]
        words += sorted({fault.partition(":")[0] for fault in verdict.faults})
        for counter in (self.total, self.kinds.setdefault(mutant.kind, Counter())):
            counter.update(words)
        for fault in verdict.faults[: 3 if len(self.examples) < 60 else 0]:
            self.examples.append(f"{mutant.kind}: {fault}")

    @property
    def wrong(self) -> int:
        """How many mutants were judged wrong."""
        return sum(self.total[fault] for fault in FAULTS)

    def lines(self) -> Iterator[str]:
        """The report."""
        for kind, counter in self.kinds.items():
            yield f"{kind:32} " + ", ".join(f"{number} {word}" for word, number in counter.items())
        yield from self.examples
        yield ", ".join(f"{self.total[word]} {word}" for word in ("mutants", "not importable", "applied", "stock"))
        yield ", ".join(f"{self.total[word]} {word}" for word in FAULTS)


def fuzz(trees: list[Path], modules: list[str], count: int, seed: int, keep: Path | None) -> Tally:
    """Judge `count` mutants, shared out over the targets of the trees."""
    from gaudi_shadow.startup import install

    finder = install("bench")
    tally, dice = Tally(), random.Random(seed)
    targets = [(tree, module) for tree in trees for module in modules]
    for number, (tree, module) in enumerate(targets):
        text = tree.joinpath(*module.split(".")).with_suffix(".py").read_text("utf-8")
        share = (count + number) // len(targets)
        with tempfile.TemporaryDirectory() as folder:
            sys.path.insert(0, folder)
            oracle = Oracle(Target.read(module, text), Path(folder), finder)
            if not oracle.knows_it():
                print(f"{module} of {tree.name} is not known unchanged: its neutral mutants count as missed")
            for mutant in mutants(oracle.target, share, dice):
                try:
                    verdict = oracle.judge(mutant)
                except TooLong:
                    verdict = Verdict(["crashed: it did not end"], False, False)
                tally.add(mutant, verdict)
                if keep and verdict.faults:
                    (keep / f"{tally.total['mutants']}.py").write_bytes(mutant.data)
            sys.path.remove(folder)
            for name in [name for name in sys.modules if name.partition(".")[0] in ("vllm_gaudi", "vllm")]:
                del sys.modules[name]
    return tally


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, help="a tree that holds vllm_gaudi; the stand-ins without it")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--module", choices=sorted(FUNCTIONS), action="append", help="only this target")
    parser.add_argument("--keep", type=Path, help="write each mutant that shows a fault into this folder")
    args = parser.parse_args()
    forget_what_is_installed()
    sys.dont_write_bytecode = True
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        hook, trees = (CHECKOUT, [args.root]) if args.root else standins(Path(folder))
        use_package(hook)
        permissive_imports.install(frozenset({"gaudi_shadow", "packaging"}), frozenset({"vllm_gaudi"}))
        tally = fuzz(trees, args.module or sorted(FUNCTIONS), args.count, args.seed, args.keep)
    print(f"Python {sys.version.split()[0]}, seed {args.seed}, {args.root.name if args.root else 'stand-ins'}")
    print(*tally.lines(), sep="\n")
    return int(tally.wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
