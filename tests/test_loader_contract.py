"""The loader answers as the stock one, and what runs is the patched copy; case 19 of the project's cases."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from adversity.light import make_light
from conftest import RUNNER, UTILS, Workshop, clean_environment, run_python

OVERLAY = "gaudi_shadow/overlays/v0.26.0/vllm_gaudi/v1/worker/hpu_model_runner.py"
PREAMBLE = f"""
import importlib, importlib.util, inspect, json, sys
RUNNER, UTILS = {RUNNER!r}, {UTILS!r}
def is_ours(module):
    return "overlays" in module.HPUModelRunner._execute_mm_encoder.__code__.co_filename
"""


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return make_light(tmp_path_factory.mktemp("light"))


@pytest.fixture
def own_workshop(tmp_path: Path) -> Workshop:
    return make_light(tmp_path)


def answer(workshop: Workshop, code: str, **variables: str):
    """What a hooked interpreter prints as JSON."""
    done = run_python("-c", PREAMBLE + code, env=workshop.environment("v0.26.0", **variables))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


FACTS = """
module = importlib.import_module(RUNNER)
spec = module.__spec__
print(json.dumps([
    module.__file__, module.__cached__, module.__name__, module.__package__,
    spec.origin, spec.cached, spec.has_location,
    type(spec.loader).__name__, type(module.__loader__).__name__, spec.loader is module.__loader__,
    spec.loader.is_package(RUNNER), spec.loader.get_filename(RUNNER), spec.loader.path, inspect.getsourcefile(module),
    inspect.getsource(module), inspect.getsource(module.HPUModelRunner._gather_mm_embeddings),
    inspect.getsourcelines(module.HPUModelRunner._gather_mm_embeddings)[1],
    module.HPUModelRunner._gather_mm_embeddings.__code__.co_firstlineno,
]))
"""


def test_the_module_has_the_stock_attributes_loader_source_and_lines(workshop):
    assert answer(workshop, FACTS) == answer(workshop, FACTS, VLLM_GAUDI_SHADOW="0")


FOUND = """
spec = importlib.util.find_spec(RUNNER)
loader = spec.loader
reader = getattr(loader, "get_resource_reader", lambda name: None)(RUNNER)
print(json.dumps([
    spec.name, spec.origin, spec.cached, spec.has_location, spec.parent, loader.is_package(RUNNER),
    loader.get_source(RUNNER), loader.get_filename(RUNNER), loader.path, loader.name, type(reader).__name__,
    len(loader.get_data(spec.origin)), RUNNER in sys.modules,
]))
"""


def test_a_spec_that_is_only_looked_at_answers_as_stock(workshop):
    assert answer(workshop, FOUND) == answer(workshop, FOUND, VLLM_GAUDI_SHADOW="0")


def test_getsource_and_the_traceback_show_the_overlay(workshop):
    code = """
import traceback
module = importlib.import_module(RUNNER)
function = module.HPUModelRunner._execute_mm_encoder
try:
    function(object(), None, ["request"])
except AttributeError as error:
    frames = traceback.extract_tb(error.__traceback__)
shown = [[frame.filename, frame.line] for frame in frames]
print(json.dumps([inspect.getsource(function), inspect.getsourcefile(function), shown]))
"""
    source, file, frames = answer(workshop, code)
    text = (workshop.hook / OVERLAY).read_text("utf-8")
    assert source in text and "encode_uncached" in source
    assert file.endswith(OVERLAY)
    assert frames[1][0] == file
    assert frames[1][1] and frames[1][1] in text


def test_annotations_defaults_and_docstring_are_as_documented(workshop):
    code = """
module = importlib.import_module(UTILS)
function = module._merge_multimodal_embeddings
print(json.dumps([sorted(function.__annotations__), function.__defaults__, function.__doc__, function.__module__]))
"""
    annotations, defaults, doc, module = answer(workshop, code)
    assert annotations == ["inputs_embeds", "is_multimodal", "return"]
    assert (defaults, module) == (None, UTILS)
    assert "gaudi-shadow" in doc


@pytest.mark.parametrize(
    "get",
    [
        "module = importlib.import_module(RUNNER)",
        "module = importlib.reload(importlib.import_module(RUNNER))",
        "module = importlib.reload(importlib.reload(importlib.import_module(RUNNER)))",
        "del_me = importlib.import_module(RUNNER); del sys.modules[RUNNER]; module = importlib.import_module(RUNNER)",
        "spec = importlib.util.find_spec(RUNNER); module = importlib.util.module_from_spec(spec);"
        "spec.loader.exec_module(module)",
        "spec = importlib.util.find_spec(RUNNER); module = spec.loader.load_module(RUNNER)",
        "spec = importlib.util.find_spec(RUNNER); spec.loader = importlib.util.LazyLoader(spec.loader);"
        "module = importlib.util.module_from_spec(spec); sys.modules[RUNNER] = module; spec.loader.exec_module(module)",
        "import copy; spec = importlib.util.find_spec(RUNNER); spec.loader = copy.copy(spec.loader);"
        "module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)",
        "import pickle; spec = importlib.util.find_spec(RUNNER); spec.loader = pickle.loads(pickle.dumps(spec.loader));"
        "module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)",
        "import pkgutil, vllm_gaudi.v1.worker as parent;"
        "info = next(i for i in pkgutil.iter_modules(parent.__path__, parent.__name__ + '.') if i.name == RUNNER);"
        "module = importlib.import_module(info.name)",
        "import pydoc; module = pydoc.locate(RUNNER)",
    ],
    ids=[
        "import",
        "reload",
        "reload twice",
        "again",
        "by spec",
        "load_module",
        "lazy",
        "copied",
        "pickled",
        "pkgutil",
        "pydoc",
    ],
)
def test_every_way_to_load_it_gives_the_patched_copy(workshop, get):
    assert answer(workshop, get + "\nprint(json.dumps(is_ours(module)))") is True


def test_python_m_and_runpy_run_what_an_import_runs(own_workshop):
    path = own_workshop.trees["v0.26.0"] / "vllm_gaudi/models/utils.py"
    ending = '\nif __name__ == "__main__":\n    print(_merge_multimodal_embeddings.__code__.co_filename)\n'
    path.write_text(path.read_text("utf-8") + ending, "utf-8")
    done = run_python("-m", UTILS, env=own_workshop.environment("v0.26.0"))
    assert done.returncode == 0, done.stderr
    assert "overlays" in done.stdout
    code = f"import runpy; runpy.run_module({UTILS!r}, run_name='__main__')"
    assert run_python("-c", code, env=own_workshop.environment("v0.26.0")).stdout == done.stdout


def test_resources_of_the_package_are_found(own_workshop):
    (own_workshop.trees["v0.26.0"] / "vllm_gaudi/models/table.txt").write_text("content", "utf-8")
    code = """
import importlib.resources
module = importlib.import_module(UTILS)
print(json.dumps(importlib.resources.files("vllm_gaudi.models").joinpath("table.txt").read_text()))
"""
    assert answer(own_workshop, code) == "content"


def test_a_release_in_a_zip_file_is_patched(own_workshop, tmp_path):
    tree, archive = own_workshop.trees["v0.26.0"], tmp_path / "release.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted(tree.rglob("*.py")):
            file.write(path, path.relative_to(tree))
    code = PREAMBLE + "module = importlib.import_module(RUNNER); print(json.dumps([is_ours(module), module.__file__]))"
    env = clean_environment(PYTHONPATH=f"{own_workshop.hook}:{archive}")
    done = run_python("-c", code, env=env)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [True, str(archive / "vllm_gaudi/v1/worker/hpu_model_runner.py")]


@pytest.mark.parametrize("keeps_get_code", [True, False], ids=["asks get_code", "compiles itself"])
def test_a_loader_with_an_exec_module_of_its_own(workshop, keeps_get_code):
    """Such a loader is handed our code; one that does not ask for it leaves the module stock, and that is said."""
    body = "super().exec_module(module)" if keeps_get_code else "exec(self.get_source(RUNNER), vars(module))"
    code = f"""
import importlib.machinery, gaudi_shadow
class Loader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module):
        module.by_their_loader = True
        {body}
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and name == RUNNER:
            spec.loader = Loader(RUNNER, spec.origin)
        return spec
sys.meta_path.insert(1, Finder)
module = importlib.import_module(RUNNER)
print(json.dumps([module.by_their_loader, is_ours(module), gaudi_shadow.status()["modules"][RUNNER]["state"]]))
"""
    done = run_python("-c", PREAMBLE + code, env=workshop.environment("v0.26.0"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [True, keeps_get_code, "patched" if keeps_get_code else "stock"]
    assert (done.stderr == "") is keeps_get_code
    if not keeps_get_code:
        assert "mm-encoder-budget" in done.stderr and done.stderr.count("\n") == 1
