"""Stock loaders of other people's making: shared, frozen, wrapped, without code; each executes its module just once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from adversity.light import FUNCTIONS, RELEASE, TARGETS, make_light, target_file
from conftest import RUNNER, UTILS, Workshop, run_python

START = f"TARGETS, FUNCTIONS = {TARGETS!r}, {FUNCTIONS!r}\n"
SCRIPT = """
import importlib, json, sys, types
from importlib.machinery import PathFinder, SourceFileLoader

OURS = {"vllm_gaudi.models.utils", "vllm_gaudi.v1.worker.hpu_model_runner"}
LOADER

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and name.startswith("vllm_gaudi.") and (name in OURS or EVERY):
            spec.loader = make(spec.loader)
        return spec

sys.meta_path.insert(0, Finder)
if type(sys.meta_path[1]).__name__ == "ShadowFinder":
    sys.meta_path[:2] = reversed(sys.meta_path[:2])
sys.executions = []
said = {}
for name in TARGETS:
    try:
        importlib.import_module(name)
        said[name] = "imported"
    except Exception as error:
        said[name] = type(error).__name__ + ": " + str(error)
files = {}
for name, qualname in FUNCTIONS.items():
    found = sys.modules.get(name)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    files[name] = "/overlays/" in getattr(getattr(found, "__code__", None), "co_filename", "")
status = sys.modules["gaudi_shadow"].status()["modules"]
print(json.dumps({
    "said": said, "files": files, "executions": sys.executions,
    "states": {name: entry["state"] for name, entry in status.items()},
    "reasons": {n: [f["reason"] for f in entry["fixes"].values()] for n, entry in status.items()},
    "left": [name for name, module in sys.modules.items() if name.startswith("vllm_gaudi")
             if "CodeGiver" in repr(type(getattr(module.__loader__, "__dict__", {}).get("get_code")))],
}))
"""
WRAPPER = """
EVERY = False
class Loader:
    def __init__(self, inner):
        self.inner = inner
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        code = {code}
        exec(code, vars(module))
    {methods}
make = Loader
"""

PATCHED = {
    "one loader for every module": """
EVERY = True
class Loader:
    inner = {}
    def create_module(self, spec): return None
    def exec_module(self, module): exec(self.get_code(module.__name__), vars(module))
    def get_code(self, name): return self.inner[name].get_code(name)
    def get_source(self, name): return self.inner[name].get_source(name)
ONE = Loader()
def make(stock):
    Loader.inner[stock.name] = stock
    return ONE
""",
    "a class for a loader": """
EVERY = True
class Loader:
    inner = {}
    @staticmethod
    def create_module(spec): return None
    @classmethod
    def exec_module(cls, module): exec(cls.get_code(module.__name__), vars(module))
    @classmethod
    def get_code(cls, name): return cls.inner[name].get_code(name)
    @classmethod
    def get_source(cls, name): return cls.inner[name].get_source(name)
def make(stock):
    Loader.inner[stock.name] = stock
    return Loader
""",
    "a source loader that keeps its texts in memory": """
EVERY = False
import importlib.abc
class Loader(importlib.abc.SourceLoader):
    def __init__(self, inner): self.inner = inner
    def get_filename(self, name): return self.inner.get_filename(name)
    def get_data(self, path): return self.inner.get_data(path)
make = Loader
""",
    "a get_code of the instance's own": """
EVERY = False
class Loader(SourceFileLoader):
    def exec_module(self, module): super().exec_module(module)
def make(stock):
    loader = Loader(stock.name, stock.path)
    loader.get_code = stock.get_code
    return loader
""",
    "get_code by keyword": WRAPPER.format(
        code="self.get_code(fullname=module.__name__)",
        methods="def get_code(self, fullname): return self.inner.get_code(fullname)\n"
        "    def get_source(self, name): return self.inner.get_source(name)",
    ),
}
STOCK = {
    "__slots__": (
        """
EVERY = False
class Loader:
    __slots__ = ("inner",)
    def __init__(self, inner): self.inner = inner
    def create_module(self, spec): return None
    def exec_module(self, module): exec(self.get_code(module.__name__), vars(module))
    def get_code(self, name): return self.inner.get_code(name)
    def get_source(self, name): return self.inner.get_source(name)
make = Loader
""",
        "its loader cannot be given the patched code",
    ),
    "no get_code": (
        WRAPPER.format(code="self.inner.get_code(module.__name__)", methods=""),
        "no code object to compare",
    ),
    "no get_source": (
        WRAPPER.format(
            code="self.get_code(module.__name__)", methods="def get_code(self, name): return self.inner.get_code(name)"
        ),
        "no source to compare",
    ),
    "get_code raises": (
        WRAPPER.format(
            code="self.inner.get_code(module.__name__)",
            methods="def get_code(self, name): raise RuntimeError('locked')",
        ),
        "its own loader cannot read it: RuntimeError: locked",
    ),
    "get_source raises": (
        WRAPPER.format(
            code="self.get_code(module.__name__)",
            methods="def get_code(self, name): return self.inner.get_code(name)\n"
            "    def get_source(self, name): raise RuntimeError('locked')",
        ),
        "its own loader cannot read it: RuntimeError: locked",
    ),
    "get_source gives bytes": (
        WRAPPER.format(
            code="self.get_code(module.__name__)",
            methods="def get_code(self, name): return self.inner.get_code(name)\n"
            "    def get_source(self, name): return b'import os'",
        ),
        "internal error",
    ),
    "get_code gives a text": (
        WRAPPER.format(
            code="self.inner.get_code(module.__name__)",
            methods="def get_code(self, name): return 'import os'\n"
            "    def get_source(self, name): return self.inner.get_source(name)",
        ),
        "internal error",
    ),
    "its code is instrumented": (
        WRAPPER.format(
            code="self.get_code(module.__name__)",
            methods="def get_source(self, name): return self.inner.get_source(name)\n"
            "    def get_code(self, name):\n"
            "        text = self.get_source(name).replace('missing = [', 'print; missing = [')\n"
            "        text = text.replace('rows = inputs_embeds', 'print; rows = inputs_embeds')\n"
            "        return compile(text, self.inner.path, 'exec', dont_inherit=True)",
        ),
        "bytecode does not match source",
    ),
    "it executes another loader's code": (
        WRAPPER.format(
            code="self.inner.get_code(module.__name__)",
            methods="def get_code(self, name): return self.inner.get_code(name)\n"
            "    def get_source(self, name): return self.inner.get_source(name)",
        ),
        "the module or its loader put something else in the place of",
    ),
}


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    light = make_light(tmp_path_factory.mktemp("light"))
    for module in TARGETS:
        path = target_file(light, module)
        path.write_text(path.read_text("utf-8") + "\nimport sys\nsys.executions.append(__name__)\n", "utf-8")
    path = target_file(light, UTILS)
    path.write_text(path.read_text("utf-8") + f"import vllm_gaudi.v1.worker, {RUNNER}\n", "utf-8")
    return light


def answer_of(light: Workshop, loader: str, **variables: str) -> dict:
    done = run_python("-c", START + SCRIPT.replace("LOADER", loader), env=light.environment(RELEASE, **variables))
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout), "lines": done.stderr.splitlines()}


@pytest.mark.parametrize("name", PATCHED)
def test_a_loader_that_executes_what_it_is_given(light: Workshop, name: str) -> None:
    """One target imports the other in its body, through the same loader where there is one."""
    answer = answer_of(light, PATCHED[name])
    assert answer["lines"] == [] and answer["files"] == dict.fromkeys(TARGETS, True)
    assert answer["states"] == dict.fromkeys(TARGETS, "patched")
    assert sorted(answer["executions"]) == sorted(TARGETS)
    assert answer["left"] == []


@pytest.mark.parametrize("name", STOCK)
def test_a_loader_that_cannot_be_given_code(light: Workshop, name: str) -> None:
    loader, reason = STOCK[name]
    answer = answer_of(light, loader)
    assert answer["said"] == dict.fromkeys(TARGETS, "imported")
    assert answer["files"] == dict.fromkeys(TARGETS, False) and answer["states"] == dict.fromkeys(TARGETS, "stock")
    assert all(reason in each for module in TARGETS for each in answer["reasons"][module])
    assert len(answer["lines"]) == 2 and all(reason in line for line in answer["lines"])
    assert sorted(answer["executions"]) == sorted(TARGETS)
    strict = answer_of(light, loader, VLLM_GAUDI_SHADOW_STRICT="1")
    assert all(said.startswith("ImportError: gaudi-shadow: ") for said in strict["said"].values())


def test_a_loader_that_an_exec_in_threads_shares(light: Workshop) -> None:
    """While one thread executes a target through a shared loader, others get their own modules' code from it."""
    script = """
EVERY = True
import threading
barrier = threading.Barrier(8)
class Loader:
    inner = {}
    def create_module(self, spec): return None
    def exec_module(self, module):
        if module.__name__ in OURS:
            threads = [threading.Thread(target=self.other) for _ in range(8)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
        exec(self.get_code(module.__name__), vars(module))
    def other(self):
        barrier.wait()
        assert self.get_code("vllm_gaudi.models").co_filename.endswith("models/__init__.py")
    def get_code(self, name): return self.inner[name].get_code(name)
    def get_source(self, name): return self.inner[name].get_source(name)
ONE = Loader()
def make(stock):
    Loader.inner[stock.name] = stock
    return ONE
"""
    answer = answer_of(light, script)
    assert answer["files"] == dict.fromkeys(TARGETS, True) and answer["lines"] == [] and answer["left"] == []


def test_a_damaged_stock_file_raises_its_own_error(tmp_path: Path) -> None:
    """Stock Python's error comes through, behind our one line; strict refuses before that."""
    light = make_light(tmp_path)
    path = target_file(light, UTILS)
    path.write_text(path.read_text("utf-8")[:-200] + "\n  (", "utf-8")
    script = f"import {UTILS}"
    stock = run_python("-c", script, env=light.environment(RELEASE, hooked=False))
    ours = run_python("-c", script, env=light.environment(RELEASE))
    first, rest = ours.stderr.split("\n", 1)
    assert "stays stock" in first and "its own loader cannot read it: SyntaxError" in first
    assert rest.splitlines()[-4:] == stock.stderr.splitlines()[-4:] and ours.returncode == 1
    strict = run_python("-c", script, env=light.environment(RELEASE, VLLM_GAUDI_SHADOW_STRICT="1"))
    assert strict.stderr.splitlines()[-1].startswith("ImportError: gaudi-shadow: ")
