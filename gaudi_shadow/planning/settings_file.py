"""JSON files of a model folder, and the numbers in them."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaudi_shadow.planning.resize import RefusedError

MOST = 10**15


@dataclass(frozen=True)
class Section:
    """A JSON object of a file.

    Attributes:
        file: where it was read.
        values: what it holds.
    """

    file: Path
    values: Mapping[str, Any]

    def number(self, name: str, default: int) -> int:
        """A whole number from 1 to MOST; the default where the file is silent.

        Raises:
            RefusedError: it is something else.
        """
        value = self.values.get(name)
        if value is None:
            return default
        if _is_whole(value) and 0 < value <= MOST:
            return int(value)
        raise RefusedError(f"{self.file}: {name} is {reprlib.repr(value)}, not a whole number above 0")

    def numbers(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """Whole numbers from 0 to MOST; the default where the file is silent.

        Raises:
            RefusedError: it is something else.
        """
        values = self.values.get(name)
        if values is None:
            return default
        if isinstance(values, list) and all(_is_whole(value) and 0 <= value <= MOST for value in values):
            return tuple(values)
        raise RefusedError(f"{self.file}: {name} is {reprlib.repr(values)}, not a list of whole numbers")

    def section(self, name: str) -> Section:
        """The JSON object of that name.

        Raises:
            RefusedError: it is something else, or not there.
        """
        return Section(self.file, _mapping(self.file, self.values.get(name), name))


def read_section(file: Path) -> Section | None:
    """A file's JSON object; None when there is no such file.

    Raises:
        RefusedError: the file cannot be read, or holds something else.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedError(f"{file} cannot be read: {error}") from error
    try:
        return Section(file, _mapping(file, json.loads(text), "the file"))
    except (json.JSONDecodeError, RecursionError) as error:
        raise RefusedError(f"{file} is not JSON: {error}") from error


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _mapping(file: Path, value: Any, what: str) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    raise RefusedError(f"{file}: {what} is not a JSON object")
