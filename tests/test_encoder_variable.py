"""Case 14: how VLLM_HPU_MM_ENCODER_MAX_PATCHES is read, and that a bad value stops the engine when it starts."""

from __future__ import annotations

import json
import os

import pytest
from conftest import CHECKOUT, RUNNER, clean_environment, run_python

from gaudi_shadow.fixes import mm_encoder_budget

VARIABLE = "VLLM_HPU_MM_ENCODER_MAX_PATCHES"
GOOD = {
    None: 0,
    "": 0,
    "   ": 0,
    "0": 0,
    "000": 0,
    " 4096 ": 4096,
    "\t65536\n": 65536,
    "007": 7,
    "9" * 30: int("9" * 30),
    "1" * 4300: int("1" * 4300),
}
BAD = [
    "-5",
    "-0",
    "+5",
    "abc",
    "4.0",
    "1e3",
    "4_096",
    "4,096",
    "4 096",
    "0x10",
    "65536 patches",
    "inf",
    "nan",
    "None",
    "off",
    "\uff14",  # a fullwidth 4
    "\u00b2",  # a superscript 2: str.isdigit says yes
    "\u0664",  # an Arabic-Indic 4
    "\udcff",  # a byte that is not UTF-8
    "9" * 4301,  # more digits than int() takes
]


@pytest.mark.parametrize("value", GOOD, ids=lambda value: repr(value)[:20])
def test_a_whole_number_is_the_budget(value):
    environ = {} if value is None else {VARIABLE: value}
    assert mm_encoder_budget.read_budget(environ) == GOOD[value]


@pytest.mark.parametrize("value", BAD, ids=lambda value: ascii(value)[:20])
def test_anything_else_is_one_clear_error(value):
    with pytest.raises(ValueError) as caught:
        mm_encoder_budget.read_budget({VARIABLE: value})
    assert_clear(str(caught.value), value)


def assert_clear(message, value):
    assert "\n" not in message and len(message) < 250
    assert message.startswith(f"gaudi-shadow: {VARIABLE}=")
    assert "is not a whole number of patches >= 0; set it to one such as 65536, or unset it" in message
    assert len(value) > 20 or repr(value) in message


IMPORT = f"""
import json, sys
try:
    import {RUNNER}
except ValueError as error:
    print(json.dumps(dict(error=str(error), left=[name for name in sys.modules if name == "{RUNNER}"])))
"""


@pytest.fixture(scope="module")
def no_torch(tmp_path_factory):
    """A folder with an empty torch: the stand-in's functions are not called here, and the real one takes seconds."""
    folder = tmp_path_factory.mktemp("no-torch")
    (folder / "torch.py").write_text("", "utf-8")
    return folder


@pytest.fixture
def import_runner(workshop, no_torch):
    """Run code in a new interpreter that has the stand-in, our hook, and the variable as a shell would hand it over."""

    def run(release, value, code=IMPORT, **variables):
        env = workshop.environment(release, **variables)
        env["PYTHONPATH"] += os.pathsep + str(no_torch)
        return run_python("-c", code, env={**env, VARIABLE: value} if value is not None else env)

    return run


@pytest.mark.parametrize(
    "value", ["-5", "abc", "1e3", "\uff14", "\u00b2", "\udcff", "9" * 4301], ids=lambda v: ascii(v)[:20]
)
@pytest.mark.parametrize("release", ["v0.26.0", "v0.30.0"])
def test_a_bad_value_stops_the_runners_import(import_runner, release, value):
    done = import_runner(release, value, PYTHONIOENCODING="utf-8:surrogateescape", PYTHONUTF8="1")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["left"] == []
    assert_clear(answer["error"], value)


def test_uncaught_it_is_the_last_line_of_the_traceback_and_names_the_variable_once(import_runner):
    done = import_runner("v0.26.0", "4.0", code=f"import {RUNNER}")
    assert done.returncode == 1 and done.stdout == ""
    kind, _, message = done.stderr.rstrip().splitlines()[-1].partition(": ")
    assert kind.endswith(("ValueError", "WrongValue"))
    assert_clear(message, "4.0")
    assert done.stderr.count(VARIABLE) == 1


AGAIN = f"""
import importlib, json, os, sys
import gaudi_shadow
answers = []
for value in json.loads(VALUES):
    os.environ.pop("{VARIABLE}", None)
    if value is not None:
        os.environ["{VARIABLE}"] = value
    sys.modules.pop("{RUNNER}", None)
    try:
        importlib.import_module("{RUNNER}")
    except ValueError:
        answers.append("error")
        continue
    from gaudi_shadow.fixes import mm_encoder_budget
    said = gaudi_shadow.status()["modules"]["{RUNNER}"]["fixes"]["mm-encoder-budget"]
    os.environ["{VARIABLE}"] = "17"
    answers.append([mm_encoder_budget.budget(), said["state"], said["reason"]])
print(json.dumps(answers))
"""


def test_status_says_what_was_read(import_runner):
    values = [None, "", "0", " 4096 ", "abc", "65536"]
    done = import_runner("v0.30.0", None, AGAIN.replace("VALUES", repr(json.dumps(values))))
    assert done.returncode == 0, done.stderr
    idle = [0, "applied", f"applied but idle: set {VARIABLE}"]
    with_budget = [[size, "applied", f"applied with a budget of {size} patches"] for size in (4096, 65536)]
    assert json.loads(done.stdout) == [idle, idle, idle, with_budget[0], "error", with_budget[1]]


@pytest.mark.parametrize(
    "release, variables",
    [
        ("v0.26.0", {"VLLM_GAUDI_SHADOW_DISABLE": "mm-encoder-budget"}),
        ("v0.30.0", {"VLLM_GAUDI_SHADOW_DISABLE": "mm-encoder-budget"}),
        ("v0.30.0", {"VLLM_GAUDI_SHADOW": "0"}),
    ],
)
def test_with_the_fix_switched_off_the_variable_means_nothing(import_runner, release, variables):
    done = import_runner(release, "abc", **variables)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


BELOW_BARE_PACKAGES = """
import sys, types
root, names = sys.argv[1], {runner!r}.split(".")[:-1]
for depth in range(len(names)):
    name = ".".join(names[: depth + 1])
    package = types.ModuleType(name)
    package.__path__ = ["/".join([root, *names[: depth + 1]])]
    sys.modules[name] = package
"""


@pytest.mark.parametrize("value", ["abc", "4.0", "\u00b2"])
def test_the_real_runner_does_not_load_with_a_bad_value(release_root, tmp_path, value):
    """Its packages are left empty and its body does not run, so this needs neither vLLM nor a card."""
    script = tmp_path / "import_real.py"
    script.write_text(BELOW_BARE_PACKAGES.format(runner=RUNNER) + IMPORT, "utf-8")
    env = clean_environment(PYTHONPATH=os.pathsep.join([str(CHECKOUT), str(release_root)]), PYTHONUTF8="1")
    done = run_python(script, release_root, env={**env, VARIABLE: value, "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 0, done.stderr
    assert_clear(json.loads(done.stdout)["error"], value)
