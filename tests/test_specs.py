"""Finders that search sys.meta_path themselves, beside ours: each module is found, patched once, and wrapped once."""

from __future__ import annotations

import json

import pytest
from conftest import RUNNER, run_python

FINDER = '''
import importlib.util, json, sys

class Wrapping:
    """Asks every other finder, as ours does, and remembers what it passed on. It has no guard against being asked."""
    passed_on = []
    def find_spec(self, name, path=None, target=None):
        for finder in sys.meta_path:
            if finder is not self:
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    self.passed_on.append(name)
                    return spec

class Guarded:
    """Asks through importlib.util.find_spec and declines while it does, as ddtrace's and wrapt's finders do."""
    passed_on, asking = [], set()
    def find_spec(self, name, path=None, target=None):
        if name in self.asking:
            return None
        self.asking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.asking.discard(name)
        if spec is not None:
            self.passed_on.append(name)
        return spec

finder = {kind}()
sys.meta_path.insert({place}, finder)
import {runner} as runner
import gaudi_shadow
state = gaudi_shadow.status()["modules"]["{runner}"]["state"]
file = runner.HPUModelRunner._execute_mm_encoder.__code__.co_filename
print(json.dumps([state, "overlays" in file, finder.passed_on.count("{runner}")]))
'''


@pytest.mark.parametrize("place", [0, 1, 99], ids=["before ours", "right behind ours", "last"])
@pytest.mark.parametrize("kind", ["Wrapping", "Guarded"])
def test_a_finder_that_asks_the_others(workshop, kind, place):
    done = run_python(
        "-c",
        FINDER.replace("{kind}", kind).replace("{place}", str(place)).replace("{runner}", RUNNER),
        env=workshop.environment("v0.30.0"),
    )
    assert done.returncode == 0, done.stderr
    state, is_ours, times = json.loads(done.stdout)
    assert (state, is_ours) == ("patched", True)
    assert times == (0 if place == 99 else 1)


FAILING = """
import sys
class Failing:
    def find_spec(self, name, path=None, target=None):
        if name == "{runner}":
            raise OSError("the network disk hiccups")
sys.meta_path.insert(1, Failing())
try:
    import {runner}
except Exception as error:
    print(repr(error), repr(error.__cause__))
"""


@pytest.mark.parametrize("strict", ["0", "1"])
def test_what_another_finder_raises_is_what_the_import_raises(workshop, strict):
    environment = workshop.environment("v0.30.0", VLLM_GAUDI_SHADOW_STRICT=strict)
    done = run_python("-c", FAILING.replace("{runner}", RUNNER), env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "OSError('the network disk hiccups') None\n", "")


AGAIN = """
import importlib, sys
import gaudi_shadow.finder
{do}
from gaudi_shadow.finder import install
install("again")
import {runner}, gaudi_shadow
print([type(each).__name__ for each in sys.meta_path].count("ShadowFinder"))
print(gaudi_shadow.status()["modules"]["{runner}"]["state"])
"""
FORGET = 'for name in [each for each in sys.modules if each.startswith("gaudi_shadow")]: del sys.modules[name]'


@pytest.mark.parametrize("do", ["importlib.reload(gaudi_shadow.finder)", FORGET])
def test_our_modules_imported_anew_find_the_finder_that_is_there(workshop, do):
    script = AGAIN.replace("{do}", do).replace("{runner}", RUNNER)
    done = run_python("-c", script, env=workshop.environment("v0.30.0"), cwd=workshop.hook)
    assert (done.stdout, done.stderr) == ("1\npatched\n", "")
