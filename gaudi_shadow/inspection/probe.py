"""The script that a new interpreter runs for `check`, `show` and `diff` (see asking.py). It is run, never imported.

Its one argument is JSON: `fd`, where the answer goes; `root` and `texts` as `survey.survey` takes them.
"""

import sys

sys.dont_write_bytecode = True

import importlib.util  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402

FOLDER = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(FOLDER)


def _leave_own_folder() -> None:
    """A script's folder is put first on sys.path; a console script's holds no modules, and ours would shadow some."""
    if sys.path and os.path.realpath(sys.path[0]) == os.path.realpath(FOLDER):
        del sys.path[0]


def _have_package() -> None:
    """Use the copy that the hook has brought; without a hook the one around this script, by its location."""
    if "gaudi_shadow" in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(
        "gaudi_shadow", os.path.join(PACKAGE, "__init__.py"), submodule_search_locations=[PACKAGE]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gaudi_shadow"] = module
    spec.loader.exec_module(module)


def main() -> None:
    """Look, and write what was found, or the fault of ours that prevents it, as JSON."""
    question = json.loads(sys.argv[1])
    _leave_own_folder()
    try:
        _have_package()
        from gaudi_shadow.inspection.survey import survey

        answer = survey(question["root"], question["texts"])
    except Exception as error:
        where = getattr(sys.modules.get("gaudi_shadow"), "__file__", None) or os.path.join(PACKAGE, "__init__.py")
        answer = {"fault": f"{os.path.dirname(where)}: {type(error).__name__}: {error}"}
    with open(question["fd"], "w", encoding="ascii") as pipe:
        json.dump(answer, pipe)


if __name__ == "__main__":
    main()
