"""A server under load: `vllm serve`, the OpenAI client, 8 requests of 2 images at once for minutes, and its memory."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import scenarios
import verdicts
from asking import CHAT_TEMPLATE, TOKENS, TOKENS_TO_ABORT, key_of
from engine_worker import DEFAULTS
from environments import HERE, Setup
from resident_memory import Memory, growth
from verdicts import Row

# The second has a card without limit: it is the yardstick for memory, where it lives.
SERVERS = {
    "serve-stock-llava": ("stock", "llava"),
    "serve-stock-qwen3vl": ("stock", "qwen3vl"),
    "serve-qwen3vl": ("PYTHONPATH", "qwen3vl"),
    "serve-llava": ("wheel", "llava"),
}
START_TIMEOUT = 600


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _command(setup: Setup, route: str, family: str, port: int) -> list[str]:
    template = setup.work / "chat.jinja"
    template.write_text(CHAT_TEMPLATE, "utf-8")
    limit = scenarios.limits(family)["limit_mm_per_prompt"]
    options = {
        "served-model-name": "tiny",
        "dtype": DEFAULTS["dtype"],
        "max-model-len": DEFAULTS["max_model_len"],
        "max-num-seqs": 8,
        "max-num-batched-tokens": scenarios.CHUNK * 2,
        "num-gpu-blocks-override": DEFAULTS["num_gpu_blocks_override"],
        "host": "127.0.0.1",
        "port": port,
        "chat-template": template,
        "limit-mm-per-prompt": json.dumps(limit),
    }
    flat = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
    switches = ["--enforce-eager", "--enable-chunked-prefill", "--enable-prefix-caching"]
    start = [str(setup.interpreter(route)), "-m", "vllm.entrypoints.cli.main", "serve"]
    return [*start, str(setup.work / "models" / family), *flat, *switches]


@contextlib.contextmanager
def _server(setup: Setup, stage: str, route: str, family: str) -> Iterator[tuple[int, str, float]]:
    """A running server: its process id (and group), its URL, and the seconds until it answered."""
    port = _free_port()
    variables = {}
    if family in scenarios.FLAT_MASK:
        variables["VLLM_PROMPT_BS_BUCKET_MAX"] = "4"
        variables["HPU_STANDIN_SCATTER_LIMIT"] = str(scenarios.SCATTER_LIMIT[family])
    elif route != "stock":
        variables["HPU_STANDIN_CARD_BYTES"] = str(scenarios.CARD_BYTES)
    if route != "stock":
        variables["VLLM_HPU_MM_ENCODER_MAX_PATCHES"] = str(scenarios.BUDGET)
    with (setup.work / f"{stage}.log").open("w") as log:
        server = subprocess.Popen(
            _command(setup, route, family, port),
            env=setup.environ(route, **variables),
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            start = time.monotonic()
            while not _is_up(port):
                if server.poll() is not None or time.monotonic() - start > START_TIMEOUT:
                    raise RuntimeError(f"{stage}: the server did not come up; see {log.name}")
                time.sleep(1)
            yield server.pid, f"http://127.0.0.1:{port}/v1", time.monotonic() - start
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(60)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _is_up(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
            return True
    except OSError:
        return False


def _load(setup: Setup, stage: str, url: str, minutes: float) -> dict[str, Any]:
    plan_file = setup.work / f"{stage}.plan.json"
    plan = {"url": url, "requests": scenarios.LOAD, "minutes": minutes, "at_once": 8, "hang_up_every": 3}
    plan_file.write_text(json.dumps(plan), "utf-8")
    done = subprocess.run(
        [str(setup.python), str(HERE / "load_client.py"), str(plan_file)],
        stdout=subprocess.PIPE,
        text=True,
        timeout=60 * minutes + 600,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _generated(url: str) -> int | None:
    """How many tokens the server says it has generated; None where it no longer answers."""
    try:
        with urllib.request.urlopen(url.removesuffix("/v1") + "/metrics", timeout=30) as page:
            lines = page.read().decode().splitlines()
    except OSError:
        return None
    return sum(int(float(line.split()[-1])) for line in lines if line.startswith("vllm:generation_tokens_total"))


def _hung_up(found: dict[str, Any], generated: int | None) -> tuple[str, bool]:
    """Whether the requests whose client hung up were aborted: else the server had generated all their tokens."""
    if not found["hung_up"] or generated is None:
        return f"{found['hung_up']} clients hung up", False
    each = (generated - TOKENS * len(found["answers"])) / found["hung_up"]
    text = f"{found['hung_up']} clients hung up, after {each:.0f} of {TOKENS_TO_ABORT} tokens on average"
    return text, each < TOKENS_TO_ABORT / 2


def _due(setup: Setup, route: str, family: str) -> str | None:
    """What must kill the server: stock's batches of a flat mask, and images that come back where vLLM strips them."""
    if route != "stock":
        return None
    if family in scenarios.FLAT_MASK:
        return verdicts.COMPILE
    return verdicts.COVERED if setup.strips_covered_data else None


def rows(setup: Setup, stage: str, reference: dict[tuple[str, str], Any], minutes: float) -> Iterator[Row]:
    """Serve, ask, measure."""
    route, family = SERVERS[stage]
    run = f"{route}, vllm serve"
    with _server(setup, stage, route, family) as (group, url, up_after), Memory(group) as memory:
        found = _load(setup, stage, url, minutes)
        hung_up, is_aborted = _hung_up(found, _generated(url))
    (setup.work / f"{stage}.json").write_text(json.dumps({**found, "memory": memory.samples}), "utf-8")
    log = (setup.work / f"{stage}.log").read_text("utf-8", "replace")
    wanted = [reference[family + "chat", key_of(scenarios.LOAD[number])] for number, _ in found["answers"]]
    compared, is_right = verdicts.compare([answer for _, answer in found["answers"]], wanted)
    text = f"up after {up_after:.0f} s; {found['rounds']} rounds, {hung_up}; {compared}"
    errors = found["errors"]
    if errors:
        text += f"; {len(errors)} errors, such as {errors[0]}"
    due = _due(setup, route, family)
    if due is not None:
        cause = re.search(f".*({due}).*", log)
        is_dead = bool(errors) and cause is not None
        yield Row(run, stage, "under load", text + (f" [in the log: {cause[1]}]" if cause else ""), is_dead)
        return
    yield Row(run, stage, "under load", text, is_right and is_aborted and not errors)
    yield Row(run, stage, "memory", *growth(memory.samples))
    if route == "stock":
        return
    told, count = verdicts.reporters(log)
    yield Row(run, stage, "who reports the hook", told, count == 2)
