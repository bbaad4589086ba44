"""Case 7: whom the fixed merge reaches. vllm_gaudi.models.utils ends by putting its merge into vLLM's own module."""

from __future__ import annotations

import json
import os

import pytest
from conftest import CHECKOUT, UTILS, clean_environment, run_python

# As much of torch and vLLM as a release's models/utils.py asks for when it is imported; none of it is called.
STUBS = {
    "torch/__init__.py": "class Tensor: pass\n",
    "torch/nn.py": "",
    "vllm/__init__.py": "",
    "vllm/distributed.py": (
        "def get_tensor_model_parallel_rank(): pass\ndef get_tensor_model_parallel_world_size(): pass\n"
    ),
    "vllm/multimodal/__init__.py": "NestedTensors = object\n",
    "vllm/model_executor/__init__.py": "",
    "vllm/model_executor/models/__init__.py": "",
    "vllm/model_executor/models/utils.py": (
        "def _flatten_embeddings(parts): pass\n"
        "def _embedding_count_expression(parts): pass\n"
        "def _merge_multimodal_embeddings(inputs_embeds, multimodal_embeddings, is_multimodal): pass\n"
    ),
    "model_early.py": "from vllm.model_executor.models.utils import _merge_multimodal_embeddings as merge\n",
    "model_late.py": "from vllm.model_executor.models.utils import _merge_multimodal_embeddings as merge\n",
}

SCRIPT = """
import json, sys, types
root, target = sys.argv[1:]
for depth, name in enumerate(("vllm_gaudi", "vllm_gaudi.models"), 1):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = ["/".join([root, *name.split(".")])]

import model_early
from vllm.model_executor.models import utils as owner
owners_own = owner._merge_multimodal_embeddings
__import__(target)
import model_late
theirs = sys.modules[target]._merge_multimodal_embeddings
state = "no hook"
if "gaudi_shadow" in sys.modules:
    import gaudi_shadow
    state = gaudi_shadow.status()["modules"][target]
print(json.dumps({
    "owner has the target's": owner._merge_multimodal_embeddings is theirs,
    "late has the target's": model_late.merge is theirs,
    "early has the owner's": model_early.merge is owners_own and owners_own is not theirs,
    "file": theirs.__code__.co_filename,
    "state": state,
}))
"""


@pytest.fixture(scope="module")
def stubs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stubs")
    for name, text in STUBS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


def import_merge(stubs, root, *hook):
    entries = os.pathsep.join(map(str, [*hook, stubs]))
    env = clean_environment(PYTHONPATH=entries, PYTHONDONTWRITEBYTECODE="1")
    done = run_python("-c", SCRIPT, root, UTILS, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_reaches(answer, is_patched):
    assert answer["owner has the target's"], "module A's merge is module B's"
    assert answer["late has the target's"], "who imports it afterwards gets it"
    assert answer["early has the owner's"], "who imported it before holds the old one, with or without us"
    assert ("overlays" in answer["file"].split(os.sep)) == is_patched
    if is_patched:
        assert answer["state"]["state"] == "patched"
        assert set(answer["state"]["fixes"]) == {"mm-merge-idxcopy"}
        assert "model_early" not in json.dumps(answer["state"])


@pytest.mark.parametrize("release", ["v0.26.0", "v0.30.0"])
def test_case_7_callers_get_the_fixed_merge(workshop, stubs, release):
    root = workshop.trees[release]
    assert_reaches(import_merge(stubs, root), is_patched=False)
    assert_reaches(import_merge(stubs, root, workshop.hook), is_patched=True)


def test_case_7_with_the_real_module(release_root, stubs):
    assert_reaches(import_merge(stubs, release_root), is_patched=False)
    assert_reaches(import_merge(stubs, release_root, CHECKOUT), is_patched=True)
