"""A vllm-gaudi tree on disk, read for a maintainer; nothing of it is executed, nothing is written to it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from gaudi_shadow import locate
from gaudi_shadow.finder import TARGETS
from gaudi_shadow.fingerprint import UnreadableBlock
from gaudi_shadow.graft import CannotGraft
from gaudi_shadow.release import Release, release_at
from gaudi_shadow.stock import StockFunction, StockModule


@dataclass(frozen=True)
class ReleaseTree:
    """The release, and each target module, or the reason why it cannot be read."""

    release: Release
    modules: dict[str, StockModule | str]

    def function(self, module: str, qualname: str) -> StockFunction | None:
        """One function of a target, or None where the tree does not define it once."""
        stock = self.modules[module]
        if isinstance(stock, str):
            return None
        try:
            return stock.function(qualname)
        except (CannotGraft, UnreadableBlock):
            return None


def read_tree(root: str) -> ReleaseTree:
    """Compile the targets from their source.

    Args:
        root: a folder or zip file that holds vllm_gaudi.

    Raises:
        locate.NotFound: it holds none.
    """
    root = os.path.abspath(root)
    with locate.looking_in(root):
        package, found = locate.find_package("vllm_gaudi", root)
        assert package.__spec__ is not None
        read = getattr(package.__spec__.loader, "get_data", _cannot_read)
        return ReleaseTree(release_at(found, read), {name: _stock(name) for name in sorted(TARGETS)})


def _cannot_read(path: str) -> bytes:
    raise OSError(path)


def _stock(name: str) -> StockModule | str:
    try:
        spec = locate.find_target(name)
        loader: Any = spec.loader
        source = loader.get_source(name)
        if source is None:
            return f"{name} has no source"
        code = compile(source, spec.origin or name, "exec", dont_inherit=True)
    except locate.NotFound as error:
        return str(error)
    except (AttributeError, ImportError, OSError, SyntaxError, ValueError) as error:
        return f"{name} cannot be read: {error}"
    return StockModule(name, spec.origin or "", code, source, loader.get_data)
