"""The resident memory of a server's processes over time, and whether it stays where it is."""

from __future__ import annotations

import contextlib
import os
import statistics
import threading
import time
from pathlib import Path

SAMPLE_SECONDS = 2.0
GROWTH_ALLOWED = 0.02  # of the memory, from the second third of the time to the last
Samples = dict[str, list[tuple[float, float]]]


class Memory:
    """Samples the resident memory of a process group: process name -> [(seconds, MiB), ...]."""

    def __init__(self, group: int) -> None:
        self.group = group
        self.samples: Samples = {}
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


def growth(samples: Samples) -> tuple[str, bool]:
    """What each process held in the second third of the time and in the last, in words; and whether it stayed."""
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
    return "; ".join(texts), is_flat and bool(texts)
