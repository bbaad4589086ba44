"""The PYTHONPATH route of gaudi-shadow: switch the hook on, then run the sitecustomize that this file hides.

Python imports the first sitecustomize on sys.path. This file lies at a checkout's root and in the wheel under
gaudi_shadow/inject/, and any Python that inherits PYTHONPATH reads it, so it parses and stays silent from 2.7 on.
"""

import os
import sys


def _package_folder(here):
    """gaudi_shadow beside this file (a checkout), or around it (inject/ in an installed package)."""
    beside, around = os.path.join(here, "gaudi_shadow"), os.path.dirname(here)
    for folder in (beside, around):
        if os.path.basename(folder) == "gaudi_shadow" and os.path.isfile(os.path.join(folder, "__init__.py")):
            return folder
    return None


def _switch_on(here):
    if any(type(finder).__module__ == "gaudi_shadow.finder" for finder in sys.meta_path):
        return
    if "gaudi_shadow" not in sys.modules:
        folder = _package_folder(here)
        if folder is None:
            return
        # importlib.util costs 1.09x of a bare start, so its frozen parts are used instead (see docs/how-it-works.md).
        # By location: the folder above inject/ is a site-packages and must not get onto sys.path.
        spec = sys.modules["_frozen_importlib_external"].spec_from_file_location(
            "gaudi_shadow", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )
        sys.modules["_frozen_importlib"]._load(spec)
    from gaudi_shadow.finder import install

    install("sitecustomize")


def _later_entries(here):
    """The sys.path entries behind this file's own: where Python would have found the next sitecustomize."""
    same = [os.path.normcase(os.path.abspath(entry)) == os.path.normcase(here) for entry in sys.path]
    first = same.index(True) if True in same else -1
    return [entry for entry, is_ours in list(zip(sys.path, same))[first + 1 :] if not is_ours]


def _run_hidden(here):
    entries = _later_entries(here)
    if "_frozen_importlib_external" in sys.modules:
        spec = sys.modules["_frozen_importlib_external"].PathFinder.find_spec("sitecustomize", entries)
        if spec is not None and spec.loader is not None:
            sys.modules["_frozen_importlib"]._load(spec)
        return
    import imp  # Python 2.7

    try:
        found = imp.find_module("sitecustomize", entries)
    except ImportError:
        return
    try:
        imp.load_module("sitecustomize", *found)
    finally:
        if found[0]:
            found[0].close()


if __name__ == "sitecustomize":
    _here = os.path.dirname(os.path.abspath(__file__))
    if sys.version_info >= (3, 10):
        if os.environ.get("VLLM_GAUDI_SHADOW", "").strip().lower() not in ("0", "false", "no", "off"):
            try:
                _switch_on(_here)
            except Exception as error:
                if sys.stderr is not None:
                    failed = (type(error).__name__, error)
                    sys.stderr.write("gaudi-shadow: not active: %s: %s; reinstall gaudi-shadow\n" % failed)
    _run_hidden(_here)
