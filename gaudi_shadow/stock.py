"""A target module as its stock loader gives it, read function by function; nothing of it is executed."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from types import CodeType
from typing import Any

from gaudi_shadow.fingerprint import function_text, hash_of, plain_lines, without_strings
from gaudi_shadow.graft import find_code
from gaudi_shadow.match import belongs_to


class StockFunction:
    """One function of a stock module.

    Attributes:
        code: its code object in the module's.
        block: its own lines, decorators included.
        text: the block's canonical text, which the fingerprint is made of.
    """

    def __init__(self, module: StockModule, qualname: str, code: CodeType) -> None:
        self.module = module
        self.qualname = qualname
        self.code = code
        self.block, self.text = function_text(module.source or "", code.co_firstlineno)

    @cached_property
    def fingerprint(self) -> str:
        """See `fingerprint.fingerprint`."""
        return hash_of(self.text)

    @cached_property
    def text_without_strings(self) -> str:
        """The canonical text with the content of its strings cut out."""
        return without_strings(self.text)

    @cached_property
    def bytecode_matches(self) -> bool:
        """Whether the code object is what the text compiles to."""
        assert self.module.code is not None and self.module.source is not None
        return belongs_to(self.code, self.module.code, self.module.source, self.block, self.qualname)


class StockModule:
    """A target, not executed.

    Attributes:
        name: the full module name.
        file: where it comes from; for messages and to find the release.
        code: the stock loader's code object, or None when it has none (a compiled extension).
        source: the stock loader's text, or None when it has none.
        read: the stock loader's `get_data`, or a function of the same kind.
    """

    def __init__(
        self, name: str, file: str, code: CodeType | None, source: str | None, read: Callable[[str], bytes]
    ) -> None:
        self.name = name
        self.file = file
        self.code = code
        self.source = source
        self.read = read
        self._functions: dict[str, StockFunction] = {}

    @classmethod
    def from_loader(cls, loader: Any, name: str, file: str) -> StockModule:
        """Ask a stock loader. What it raises for source that does not compile passes through."""
        get_code = getattr(loader, "get_code", None)
        get_source = getattr(loader, "get_source", None)
        code = get_code(name) if get_code is not None else None
        try:
            source = get_source(name) if get_source is not None else None
        except (ImportError, OSError, UnicodeDecodeError):
            source = None
        return cls(name, file, code, source, getattr(loader, "get_data", _read_file))

    @property
    def root(self) -> str:
        """The folder or zip file that holds the top-level package."""
        root = self.file
        for _ in self.name.split("."):
            root = os.path.dirname(root)
        return root

    @cached_property
    def lines(self) -> list[str]:
        """The source's lines; none without source."""
        return plain_lines(self.source or "")

    def function(self, qualname: str) -> StockFunction:
        """One function, read once.

        Raises:
            CannotGraft: the code object holds none or several of that name.
            UnreadableBlock: the text at its first line is no function definition.
        """
        if qualname not in self._functions:
            assert self.code is not None
            self._functions[qualname] = StockFunction(self, qualname, find_code(self.code, qualname))
        return self._functions[qualname]


def _read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
