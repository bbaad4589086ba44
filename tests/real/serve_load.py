"""A server under load: `vllm serve`, the OpenAI client, 8 requests of 2 images at once for minutes, and its memory."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import scenarios
import verdicts
from asking import CHAT_TEMPLATE, key_of
from engine_worker import DEFAULTS
from environments import HERE, Setup
from verdicts import Row

SERVERS = {
    "serve-stock-llava": ("stock", "llava"),
    "serve-qwen3vl": ("PYTHONPATH", "qwen3vl"),
    "serve-llava": ("wheel", "llava"),
}
START_TIMEOUT = 600
SAMPLE_SECONDS = 2.0
GROWTH_ALLOWED = 0.02  # of the memory, from the second third of the time to the last


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
    else:
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


class Memory:
    """Samples the resident memory of a process group: process name -> [(seconds, MiB), ...]."""

    def __init__(self, group: int) -> None:
        self.group = group
        self.samples: dict[str, list[tuple[float, float]]] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        start = time.monotonic()
        while not self._over.wait(SAMPLE_SECONDS):
            for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
                with contextlib.suppress(OSError):
                    if os.getpgid(pid) == self.group:
                        self._add(pid, time.monotonic() - start)

    def _add(self, pid: int, seconds: float) -> None:
        lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
        about = dict(line.split(":", 1) for line in lines if ":" in line)
        if "VmRSS" in about:
            name = f"{about['Name'].strip()} {pid}"
            self.samples.setdefault(name, []).append((seconds, int(about["VmRSS"].split()[0]) / 1024))


def _memory_row(run: str, stage: str, samples: dict[str, list[tuple[float, float]]]) -> Row:
    texts, is_flat = [], True
    for name, points in samples.items():
        third = len(points) // 3
        middle, last = points[third : 2 * third], points[2 * third :]
        if not middle or points[-1][1] < 100:  # helpers such as the resource tracker
            continue
        late = middle + last
        slope = statistics.linear_regression([s for s, _ in late], [mib for _, mib in late]).slope * 60
        before, after = (statistics.median(mib for _, mib in part) for part in (middle, last))
        is_flat = is_flat and after <= before * (1 + GROWTH_ALLOWED)
        peak = max(mib for _, mib in points)
        texts.append(f"{name}: {before:.0f} then {after:.0f} MiB (most {peak:.0f}), {slope:+.1f} MiB a minute")
    return Row(run, stage, "memory", "; ".join(texts), is_flat and bool(texts))


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


def rows(setup: Setup, stage: str, reference: dict[tuple[str, str], Any], minutes: float) -> Iterator[Row]:
    """Serve, ask, measure."""
    route, family = SERVERS[stage]
    run = f"{route}, vllm serve"
    with _server(setup, stage, route, family) as (group, url, up_after), Memory(group) as memory:
        found = _load(setup, stage, url, minutes)
    (setup.work / f"{stage}.json").write_text(json.dumps({**found, "memory": memory.samples}), "utf-8")
    log = (setup.work / f"{stage}.log").read_text("utf-8", "replace")
    wanted = [reference[family + "chat", key_of(scenarios.LOAD[number])] for number, _ in found["answers"]]
    text, is_right = verdicts.compare([answer for _, answer in found["answers"]], wanted)
    text = f"up after {up_after:.0f} s; {found['rounds']} rounds, {found['hung_up']} hung up; {text}"
    errors = found["errors"]
    if errors:
        text += f"; {len(errors)} errors, such as {errors[0]}"
    if route == "stock":
        is_dead = bool(errors) and verdicts.COMPILE in log
        yield Row(run, stage, "under load", text + (f" [{verdicts.COMPILE} in the log]" if is_dead else ""), is_dead)
        return
    yield Row(run, stage, "under load", text, is_right and not errors)
    yield _memory_row(run, stage, memory.samples)
    told = verdicts.reporters(log)
    yield Row(run, stage, "who reports the hook", ", ".join(told), len(told) >= 2)
