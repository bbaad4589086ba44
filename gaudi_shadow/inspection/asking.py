"""Ask a new interpreter, started as a user would start one, what it makes of the fixes; see survey.py and probe.py."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Collection
from typing import Any, BinaryIO, cast

from gaudi_shadow.commands import UsageError
from gaudi_shadow.finder import TARGETS
from gaudi_shadow.inject_folder import PACKAGE
from gaudi_shadow.inspection.entries import all_refused

PROBE = os.path.join(PACKAGE, "inspection", "probe.py")
PATIENCE = 120  # seconds; a start from a cold network disk takes a few
SEE_START = f"make '{sys.executable} -c 1' work first; if it does, reinstall gaudi-shadow"


def findings(root: str | None = None, texts: Collection[str] = ()) -> dict[str, Any]:
    """What `survey.survey` finds in a new interpreter, and `printed`: the lines that its start wrote.

    The interpreter is `sys.executable` with the environment and the current folder of this process and no flags. Where
    it does not answer, every fix reads "not applied", with the reason.

    Args:
        root: a folder, or zip file, that holds vllm_gaudi; None for what Python finds.
        texts: the targets whose stock and patched text is wanted.

    Raises:
        UsageError: `root` does not exist, or is the package itself.
    """
    if root is not None and not os.path.exists(root):
        raise UsageError(f"--root {root}: there is no such folder")
    if root is not None and os.path.isfile(root) and not zipfile.is_zipfile(root):
        raise UsageError(f"--root {root}: neither a folder nor a zip file")
    if root is not None and os.path.isfile(os.path.join(root, "models", "utils.py")):
        raise UsageError(f"--root {root}: this is the package; name the folder that holds it, {os.path.dirname(root)}")
    answer, printed, ended = _ask({"root": root and os.path.abspath(root), "texts": list(texts)})
    found: dict[str, Any] = json.loads(answer) if answer else {"fault": f"it {ended} before it answered"}
    if "fault" in found:
        found = _without_answer(found["fault"], printed)
    return {**found, "printed": printed}


def _ask(question: dict[str, Any]) -> tuple[bytes, list[str], str]:
    # Files and no pipes: what a sitecustomize leaves running in the background may hold them open for ever.
    with _unnamed_file() as answer, _unnamed_file() as output:
        command = [sys.executable, PROBE, json.dumps({**question, "fd": answer.fileno()})]
        try:
            child = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[answer.fileno()],
                timeout=PATIENCE,
                check=False,
            )
            ended = f"ended with code {child.returncode}"
        except subprocess.TimeoutExpired:
            ended = f"was stopped after {PATIENCE} seconds"
        return _content(answer), _content(output).decode("utf-8", "replace").splitlines(), ended


def _unnamed_file() -> BinaryIO:
    """A file in memory where the system has such, since in a container /tmp may be read-only."""
    if hasattr(os, "memfd_create"):
        low = os.memfd_create("gaudi-shadow")
        # Where stdin or stderr is closed, `low` is their number, and a child's own would be laid over it.
        high = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 3)
        os.close(low)
        return open(high, "w+b")
    return cast(BinaryIO, tempfile.TemporaryFile())


def _content(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read()


def _without_answer(fault: str, printed: list[str]) -> dict[str, Any]:
    reason = f"a new interpreter could not be asked: {fault}" + (f": {printed[-1].strip()}" if printed else "")
    fixes = all_refused(sorted(TARGETS), reason, SEE_START)
    return {
        "python": {"version": sys.version.split()[0], "executable": sys.executable},
        "hook": {"active": False, "route": "", "package": "", "version": "", "reason": reason, "todo": SEE_START},
        "release": None,
        "fixes": fixes,
        "known": [entry["fix"] for entry in fixes],
        "broken": [reason],
        "notes": [],
        "texts": {},
    }
