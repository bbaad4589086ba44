"""Parts of ours that a test damages, and what has to be seen then."""

from __future__ import annotations

from pathlib import Path

from adversity.light import RELEASE, TARGETS, ask_strict_too
from conftest import RUNNER, Workshop


def package(light: Workshop) -> Path:
    return light.hook / "gaudi_shadow"


def check_it_runs_stock(light: Workshop, *concerned: str, words: tuple[str, ...] = ()) -> None:
    """The targets concerned are stock and said to be; the others are patched; strict refuses those concerned."""
    answer = ask_strict_too(light.environment(RELEASE))
    for module in TARGETS:
        assert answer.imports[module] == "imported"
        assert answer.is_patched(module) is (module not in concerned), answer.done.stderr
        assert answer.strict[module].startswith("ImportError: " if module in concerned else "imported")
    assert len(answer.lines) == len(concerned), answer.done.stderr
    for module, line in zip(sorted(concerned), answer.lines, strict=True):
        assert line.startswith(f"gaudi-shadow: {module} ")
        assert "reinstall gaudi-shadow" in line or "gaudi-shadow report" in line, line
        for word in ("stays stock", *words):
            assert word in line


def overlay(light: Workshop, module: str = RUNNER) -> Path:
    for release in (RELEASE, "v0.26.0"):
        path = (package(light) / "overlays" / release).joinpath(*module.split(".")).with_suffix(".py")
        if path.exists():
            return path
    raise AssertionError(module)
