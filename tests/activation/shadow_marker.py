"""Say, as one line of JSON on stdout, whether this process loads the patched targets.

It is copied into the site-packages of the Pythons that are measured. Options: `load-plugins` does before all else what
vLLM does in each of its processes; `PARENT-MODE` words start a child that answers instead (see `main`).
"""

import json
import multiprocessing
import os
import subprocess
import sys

OVERLAID = os.path.join("gaudi_shadow", "overlays", "")
MODES = ("fork", "spawn", "forkserver", "subprocess", "cleared")


def load_plugins():
    """As vLLM does: import every general plugin, then call each."""
    from importlib.metadata import entry_points

    functions = [each.load() for each in entry_points(group="vllm.general_plugins")]
    for function in functions:
        function()


def answer(options=()):
    """Import the targets and look at the two functions that are to be grafted; `route` is None without a hook."""
    if sys.flags.no_site:  # no site-packages then; whatever runs with -S puts what it needs on sys.path itself
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        sys.path.append(os.path.join(os.path.dirname(os.path.dirname(sys.executable)), "lib", version, "site-packages"))
    if "load-plugins" in options:
        load_plugins()
    import vllm_gaudi.models.utils
    import vllm_gaudi.v1.worker.hpu_model_runner

    functions = [
        vllm_gaudi.models.utils._merge_multimodal_embeddings,
        vllm_gaudi.v1.worker.hpu_model_runner.HPUModelRunner._execute_mm_encoder,
    ]
    finders = [finder for finder in sys.meta_path if type(finder).__name__ == "ShadowFinder"]
    return {
        "patched": [OVERLAID in function.__code__.co_filename for function in functions],
        "route": finders[0].route if finders else None,
        "finders": len(finders),
        "owners": [owner(finder) for finder in sys.meta_path],
        "pid": os.getpid(),
    }


def owner(finder):
    """The top-level package that a finder comes from."""
    return (finder if isinstance(finder, type) else type(finder)).__module__.partition(".")[0]


def _send_answer(pipe, options):
    pipe.send(answer(options))


def _child_answer(mode, options):
    context = multiprocessing.get_context(mode)
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_send_answer, args=(theirs, options))
    child.start()
    theirs.close()
    found = ours.recv()
    child.join()
    return found


def _subprocess_answer(options, env):
    command = [sys.executable, os.path.abspath(__file__), *options]
    return json.loads(subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True).stdout)


def main(words):
    """Answer, or let a child answer that was started the way the first word says."""
    options = [word for word in words if word not in MODES]
    mode = next((word for word in words if word in MODES), None)
    if mode == "subprocess":
        found = _subprocess_answer(options, None)
    elif mode == "cleared":
        found = _subprocess_answer(options, {})
    elif mode:
        found = _child_answer(mode, options)
    else:
        found = answer(options)
    if mode:
        assert found["pid"] != os.getpid()
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
