"""The texts of `show` and `diff`, from a new interpreter, and a line for each module that cannot be patched."""

from __future__ import annotations

from collections.abc import Collection

from gaudi_shadow.commands import UsageError
from gaudi_shadow.finder import TARGETS
from gaudi_shadow.inspection.asking import findings
from gaudi_shadow.inspection.checking import exit_code
from gaudi_shadow.messages import write_error


def module_name(text: str) -> str:
    """A target's dotted name, from that or from its path in the folder that holds vllm_gaudi.

    Raises:
        UsageError: it is no target; the message lists them.
    """
    name = text.removesuffix(".py").replace("/", ".")
    if name not in TARGETS:
        targets = ", ".join(sorted(TARGETS))
        raise UsageError(f"{text} is no module that we patch; those are {targets}; the tree is named by --root")
    return name


def composed(modules: Collection[str], root: str | None) -> tuple[dict[str, dict[str, str]], int]:
    """The stock and the patched text of each module that can be patched; the others get a line on stderr.

    A hook that is not active does not matter here: the text is what would be executed if it were.

    Returns:
        module -> {"stock": text, "patched": text}; and the exit code, the worst of the modules without a text.
    """
    found = findings(root, modules)
    code = 0
    for module in modules:
        if module in found["texts"]:
            continue
        concerned = [entry for entry in found["fixes"] if entry["module"] in (module, "?")]
        code = max(code, exit_code(concerned))
        why = "; ".join(f"{entry['fix']} {entry['state']}: {entry['reason']}" for entry in concerned)
        write_error(f"gaudi-shadow: {module} is not patched: {why}; 'gaudi-shadow check' tells what to do")
    return found["texts"], code
