"""JSON files of a model folder, and the numbers in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaudi_shadow.planning.resize import RefusedError


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
        """A whole number above 0; the default where the file is silent.

        Raises:
            RefusedError: it is something else.
        """
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        raise RefusedError(f"{self.file}: {name} is {value!r}, not a whole number above 0")

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


def _mapping(file: Path, value: Any, what: str) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    raise RefusedError(f"{file}: {what} is not a JSON object")
