"""Do two texts define a function alike: its kind, its decorators, its defaults? For those who write overlays."""

from __future__ import annotations

import ast


def definition_disagreement(stock_block: list[str], overlay_block: list[str]) -> str | None:
    """Why an overlay's definition differs from the stock one in what the stock bytecode evaluates, or None.

    Defaults and decorators are evaluated by the stock module; an overlay that states others would mislead its reader.

    Raises:
        SyntaxError: a block is no function definition.
    """
    stock, overlay = (_definition(block) for block in (stock_block, overlay_block))
    if type(stock) is not type(overlay):
        return "one is a coroutine function, the other is not"
    for part, of in (("decorators", lambda f: f.decorator_list), ("defaults", lambda f: _defaults(f.args))):
        if [ast.dump(node) for node in of(stock)] != [ast.dump(node) for node in of(overlay)]:
            return f"its {part} differ from the overlay's"
    return None


def _definition(block: list[str]) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """The definition with an empty body: parsing the body too would take most of the time of a graft."""
    opening = "if True:\n" if block[0][:1].isspace() else ""
    indent = block[0][: len(block[0]) - len(block[0].lstrip())]
    texts = ["\n".join([*block[:length], f"{indent}    pass"]) for length in range(1, len(block))]
    for text in [*texts, "\n".join(block)]:
        try:
            node = ast.parse(opening + text + "\n").body[0]
        except SyntaxError:
            continue
        if isinstance(node, ast.If):
            node = node.body[0]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return node
    raise SyntaxError(f"no function is defined by {block[0].strip()!r}")


def _defaults(arguments: ast.arguments) -> list[ast.expr]:
    return [*arguments.defaults, *(node for node in arguments.kw_defaults if node is not None)]
