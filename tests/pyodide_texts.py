"""What test_python_314.py shows to a Python: a stand-in release, odd functions, and site-packages folders."""

from __future__ import annotations

import shutil
from pathlib import Path

from conftest import RUNNER, UTILS

from gaudi_shadow import catalog

# The annotations name what nothing defines: only PEP 649 (Python 3.14) can import these two modules.
STANDIN = {
    UTILS: '''
def _flatten_embeddings(parts: NestedTensors) -> Tensor: ...


def _embedding_count_expression(parts: NestedTensors) -> str: ...


def _merge_multimodal_embeddings(
    inputs_embeds: Tensor, multimodal_embeddings: NestedTensors, is_multimodal: Tensor
) -> Tensor:
    """Stock."""
    raise AssertionError("stock")


alias = _merge_multimodal_embeddings
''',
    RUNNER: '''
import types

htorch = types.SimpleNamespace(core=types.SimpleNamespace(mark_step=lambda: None))


class Model:
    def __init__(self):
        self.calls: list[list[Patches]] = []

    def embed_multimodal(self, grids):
        self.calls.append([grid[-1] for grid in grids])
        return grids


def group_and_batch_mm_kwargs(pairs, *, device, pin_memory):
    yield pairs[0][0], len(pairs), {"grids": [item["image_grid_thw"].data for _, item in pairs]}


def sanity_check_mm_encoder_outputs(outputs, expected_num_items: Count):
    assert len(outputs) == expected_num_items


class HPUModelRunner:
    device: Device = "cpu"
    pin_memory = False
    uses_mrope: bool | Unknown = True

    def __init__(self, requests: dict[str, Request]):
        self.requests = requests
        self.encoder_cache: Cache = {}
        self.model = Model()

    def _execute_mm_encoder(self, scheduler_output: SchedulerOutput, req_ids: list[ReqId]) -> None:
        """Stock."""
        raise AssertionError("stock")
''',
}

ANNOTATED = '''
import os


class Base:
    pass


class Runner(Base):
    """Annotations of every kind beside the methods."""

    field: int = 1
    if os.name:
        sometimes: list[field] = []

    def method(self, a: Missing, b: int = 3, *c: Runner, d: dict[str, Any] = {}, **e: field) -> Missing:
        """Annotated locals, a closure, a private name, super() and an imported module's method."""
        x: Missing = 5
        y: int

        def inner(q: Missing) -> int:
            return q + x

        return inner(a), self.__secret, os.path.join("a", "b"), super().__repr__(), __class__

    async def coroutine(self, a: Missing) -> None: ...
    def one_line(self, a: Missing = 2) -> Missing: return a


def function(a: int, b: Missing = None) -> Missing:
    return os.getcwd(), a


later: Missing = 3
'''
NAMES = ["Runner.method", "Runner.coroutine", "Runner.one_line", "function"]
OVERLAY = '''
class Runner:
    def method(self, a, b=3, *c, d={}, **e):
        """Ours."""
        return "ours", a, b, self.__secret, __class__.__name__


def function(a, b=None):
    return "ours", a, b
'''
AFTER_GRAFT = {
    "(setattr(Runner, '_Runner__secret', 7), Runner().method(1))[1]": "('ours', 1, 3, 7, 'Runner')",
    "Runner.method.__kwdefaults__, Runner.method.__defaults__": "({'d': {}}, (3,))",
    "function(1)": "('ours', 1, None)",
    # Format 4 is annotationlib.Format.STRING: what is written, without looking the names up.
    "__import__('annotationlib').get_annotations(function, format=4)": "{'a': 'int', 'b': 'Missing', "
    "'return': 'Missing'}",
    "__import__('annotationlib').get_annotations(Runner, format=4)": "{'field': 'int', 'sometimes': 'list[field]'}",
}
GENERIC = """
class Holder[T]:
    def method(self, value: T) -> T:
        return value


def generic[T: int](value: T) -> T:
    return value
"""
STRINGS = {
    "nested quotes": 'def f(a):\n    return t"{a!r:>{10}} {t"{a}{"k"}"} # text"  # comment\n',
    "comment in a field": 'def f(a):\n    return t"""\n # text {a:#x}  \n\n    {a + 1  # comment\n    }\n  tail  """\n',
    "braces and formats": 'def f(a):\n    return t"{a:#06x}", t"{{#}}", rt"\\d{a}#"  # comment\n',
    "self-documenting": 'def f(a):\n    return t"{a = }", t"{a=!r:^20}"  # comment\n',
    "quotes in a field": "def f(a):\n    return t'''{\n    '''\n   in  '''\n    }  \n'''  # comment\n",
}
METADATA = {
    "missing": None,
    "empty": "",
    "without": "Name: vllm_gaudi\n",
    "with": "Name: vllm_gaudi\nVersion: 0.30.0\n",
}


def write_standin(folder: Path) -> Path:
    """Write the two modules and their packages, with metadata that say 0.30.0, as a site-packages has them."""
    for module, source in STANDIN.items():
        path = folder.joinpath(*module.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True)
        path.write_text(source, "utf-8")
        for package in list(path.relative_to(folder).parents)[:-1]:
            (folder / package / "__init__.py").touch()
    return write_metadata(folder, METADATA["with"])


def write_metadata(folder: Path, text: str | None) -> Path:
    """Write a dist-info for vllm_gaudi with this METADATA, or with none."""
    info = folder / "vllm_gaudi-0.30.0.dist-info"
    info.mkdir(parents=True)
    if text is not None:
        (info / "METADATA").write_text(text, "utf-8")
    return folder


def a_site(folder: Path, *files: str, package: bool = True, extra: dict[str, str] | None = None) -> Path:
    """A site-packages with our package, some of the wheel's start-up files, and other files.

    It always has a sitecustomize that notes which modules Python's own start has imported until then, and a `.pth` of
    somebody else's, since reading the first one costs Python a module or two.
    """
    folder.mkdir()
    if package:
        shutil.copytree(catalog.PACKAGE, folder / "gaudi_shadow", ignore=shutil.ignore_patterns("__pycache__"))
    for name in files:
        shutil.copy(Path(catalog.PACKAGE, "inject", name), folder)
    others = {"other.pth": "# nothing\n", "sitecustomize.py": "import sys\nsys.modules_at_site = sorted(sys.modules)\n"}
    for name, text in {**others, **(extra or {})}.items():
        (folder / name).write_text(text, "utf-8")
    return folder
