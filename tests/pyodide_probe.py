"""Called inside the interpreter under test: each function gives a fact about it that JSON can hold.

Nothing of ours is imported before a function needs it, so that `start` sees what the interpreter's own start has done.
"""

from __future__ import annotations

import contextlib
import io
import marshal
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any

RUNNER = "vllm_gaudi.v1.worker.hpu_model_runner"
UTILS = "vllm_gaudi.models.utils"


def start() -> dict[str, Any]:
    """What the interpreter's start has done: our finders' routes, our modules, and what site-packages' files noted."""
    return {
        "version": list(sys.version_info[:2]),
        "routes": [
            getattr(finder, "route", None) for finder in sys.meta_path if type(finder).__name__ == "ShadowFinder"
        ],
        "ours": sorted(name for name in sys.modules if name.partition(".")[0] == "gaudi_shadow"),
        "modules_at_site": getattr(sys, "modules_at_site", None),
        "pth_line_ran": getattr(sys, "pth_line_ran", False),
    }


def read_targets(root: str) -> dict[str, Any]:
    """What we make of the two target modules in a release tree, none of it executed."""
    from importlib.machinery import SourceFileLoader

    from gaudi_shadow.decide import decide
    from gaudi_shadow.stock import StockModule

    report: dict[str, Any] = {}
    for name in (UTILS, RUNNER):
        file = str(Path(root, *name.split(".")).with_suffix(".py"))
        stock = StockModule.from_loader(SourceFileLoader(name, file), name, file)
        decision = decide(stock)
        report[name] = {
            "overlay": decision.overlay,
            "states": {outcome.fix: outcome.state for outcome in decision.fixes},
            "reasons": [outcome.reason for outcome in decision.failures],
            "grafted": [qualname for qualname, _ in decision.functions],
            "fingerprints": {outcome.fix: stock.function(outcome.function).fingerprint for outcome in decision.fixes},
        }
    return report


def every_fingerprint(root: str) -> dict[str, str]:
    """The fingerprint of every function and method in vllm_gaudi that a qualified name finds."""
    from gaudi_shadow.fingerprint import fingerprint, function_block, plain_lines

    found = {}
    for path in sorted(Path(root, "vllm_gaudi").rglob("*.py")):
        source = path.read_text("utf-8")
        lines = plain_lines(source)
        for qualname, code in _functions(compile(source, str(path), "exec", dont_inherit=True)):
            block = function_block(lines, code.co_firstlineno)
            found[f"{path.relative_to(root).as_posix()} {qualname}"] = fingerprint(block)
    return found


def _functions(code: CodeType, prefix: str = "") -> Iterator[tuple[str, CodeType]]:
    inner = [const for const in code.co_consts if isinstance(const, CodeType)]
    names = [const.co_name for const in inner]
    for const in inner:
        # The compiler's own functions (lambdas, comprehensions, PEP 649's annotations) differ between Python versions.
        if names.count(const.co_name) > 1 or not const.co_name.isidentifier() or const.co_name == "__annotate__":
            continue
        if const.co_flags & 2:  # CO_NEWLOCALS: a function; a class body has it not
            yield prefix + const.co_name, const
        else:
            yield from _functions(const, f"{prefix}{const.co_name}.")


def release_version(root: str) -> str:
    """The version that we read for a tree, with each warning an error."""
    from gaudi_shadow.release import release_at

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return release_at(root, lambda path: Path(path).read_bytes()).version


def judge(source: str, qualnames: list[str]) -> dict[str, Any]:
    """For each function of a module its fingerprint, or why there is none; by compiled and by unmarshalled code."""
    from gaudi_shadow.fingerprint import UnreadableBlock
    from gaudi_shadow.graft import CannotGraft
    from gaudi_shadow.stock import StockModule

    code = compile(source, "stock.py", "exec", dont_inherit=True)
    verdicts: dict[str, Any] = {}
    for qualname in qualnames:
        verdicts[qualname] = []
        for one in (code, marshal.loads(marshal.dumps(code))):
            try:
                function = StockModule("stock", "stock.py", one, source, _no_file).function(qualname)
                verdict = function.fingerprint if function.bytecode_matches else "other bytecode"
            except (CannotGraft, UnreadableBlock) as error:
                verdict = f"{type(error).__name__}: {error}"
            verdicts[qualname].append(verdict)
    return verdicts


def _no_file(path: str) -> bytes:
    raise FileNotFoundError(path)


def canonical_and_meaning(source: str) -> dict[str, Any]:
    """The canonical text of a module's one function `f`, and whether it gives what the function itself gives."""
    from gaudi_shadow.fingerprint import canonical_text, function_block, plain_lines

    text = canonical_text(function_block(plain_lines(source), 1))
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    exec(compile(source, "before.py", "exec", dont_inherit=True), before)
    exec(compile(text, "after.py", "exec", dont_inherit=True), after)
    return {"text": text, "same": _plain(before["f"](3)) == _plain(after["f"](3))}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "interpolations"):  # a t-string's Template compares by identity
        parts = [(_plain(i.value), i.expression, i.conversion, i.format_spec) for i in value.interpolations]
        return value.strings, parts
    return value


def grafted(source: str, overlay: str, qualnames: list[str], expressions: list[str]) -> dict[str, Any]:
    """Graft functions of one text into another, execute it, and give the `repr` of each expression in its namespace."""
    from gaudi_shadow.graft import find_code, graft

    ours = compile(overlay, "ours.py", "exec", dont_inherit=True)
    stock = compile(source, "stock.py", "exec", dont_inherit=True)
    namespace: dict[str, Any] = {"__name__": "stock"}
    exec(graft(stock, {qualname: find_code(ours, qualname) for qualname in qualnames}), namespace)
    return {expression: repr(eval(expression, namespace)) for expression in expressions}


def import_release(lazily: bool = False) -> dict[str, Any]:
    """Import the stand-in release through the hook that the start has installed, and use its two functions.

    Args:
        lazily: with every import lazy (PEP 810, Python 3.15 and later).
    """
    import importlib

    import gaudi_shadow

    if lazily:
        set_lazy_imports = sys.set_lazy_imports  # type: ignore[attr-defined]
        set_lazy_imports("all")
    try:
        from vllm_gaudi.models import utils

        runner = importlib.import_module(RUNNER)
        rows = [[0.0]]
        merged = utils._merge_multimodal_embeddings(rows, [], None)
        calls, cached = _encode(runner.HPUModelRunner, [3, 3, 4, None, 20, 1, 9])
    finally:
        if lazily:
            set_lazy_imports("normal")
    status: dict[str, Any] = gaudi_shadow.status()
    return {
        "states": {name: entry["state"] for name, entry in status["modules"].items()},
        "release": status["release"],
        "route": status["hook"]["route"],
        "alias is patched": utils.alias is utils._merge_multimodal_embeddings,
        "files": [utils._merge_multimodal_embeddings.__code__.co_filename, utils.__file__],
        "in place": merged is rows,
        "calls": calls,
        "cached": cached,
        "loader": type(runner.__loader__).__name__,
    }


def _encode(runner_class: Any, sizes: list[int | None]) -> tuple[list[list[int]], list[str]]:
    """Run one encoder step over images of these sizes in patches; None is a feature whose data vLLM has stripped."""
    features = [
        SimpleNamespace(
            identifier=f"h{number}",
            modality="image",
            data=None if size is None else {"image_grid_thw": SimpleNamespace(data=[1, 1, size])},
            mm_position=SimpleNamespace(is_embed=None),
        )
        for number, size in enumerate(sizes)
    ]
    runner = runner_class({"r": SimpleNamespace(mm_features=features)})
    runner._execute_mm_encoder(None, ["r"])
    return runner.model.calls, sorted(runner.encoder_cache)


def add_site_folder(folder: str, times: int) -> dict[str, Any]:
    """Call `site.addsitedir`, and give the lines that it printed to stderr, and `start` as it is then."""
    import site

    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        for _ in range(times):
            site.addsitedir(folder)
    return {"stderr": errors.getvalue().splitlines(), **start()}
