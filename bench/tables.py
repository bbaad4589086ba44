"""The tables of docs/benchmarks.md, each from one bench's JSON result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from figures import PEERS, ROUTES

Result = dict[str, Any]


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown; the first column is of words, the others of numbers."""
    lines = [f"| {' | '.join(head)} |", "| --- |" + " ---: |" * (len(head) - 1)]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def _measured(result: Result) -> str:
    load = result["load"]
    return f"Measured {result['date']} in {result['seconds']} s, load average {load['before']} to {load['after']}."


def _goal(value: float, most: float) -> str:
    return f"{value:.3f} (goal {most:g}: {'met' if value <= most else '**missed**'})"


def encoder_memory(result: Result) -> str:
    """Figure 1."""
    rows = result["rows"]

    def cells(name: str, words: str) -> list[str]:
        row, floor = rows[name], rows.get(f"floor {name}")
        alone = f"{floor['peak_mib']:,.1f} ({floor['peak_ratio']:.3f})" if floor else ""
        ratios = f"{row['peak_ratio']:.3f}", f"{row['cpu_ratio']:.3f}", f"{row['wall_ratio']:.3f}"
        return [words, row["calls"], f"{row['peak_mib']:,.1f}", ratios[0], alone, f"{row['cpu_s']:.2f}", *ratios[1:]]

    patches = result["patches"]
    budgets = [name for name in rows if name.startswith("1/")]
    body = [cells("stock", "stock"), cells("unset", "patched, unset")]
    body += [cells(name, f"patched, {patches // int(name[2:]):,} ({name})") for name in budgets]
    head = ("budget", "calls", "peak, MiB", "of stock", "floor, MiB (of stock)", "CPU s", "of stock", "wall, of stock")
    equal = "equal bit for bit in all rows" if result["outputs_equal"] else "**NOT equal**"
    text = [table(head, body), "", f"Outputs {equal}. {result['rounds']} rounds. {_measured(result)}"]
    if "1/8" in rows:
        row, floor = rows["1/8"], rows["floor 1/8"]
        past = row["outputs_mib"] - floor["outputs_mib"]
        text.append(
            f"At 1/8: peak {_goal(row['peak_ratio'], 0.15)}, CPU time {_goal(row['cpu_ratio'], 1.0)}. The peak is "
            f"{row['peak_mib'] - floor['peak_mib']:.1f} MiB over its floor; past groups' outputs are {past:.1f} MiB."
        )
    return "\n".join(text)


def merge_time(result: Result) -> str:
    """Figure 2: one line for tokens and hidden size, one column for each fill rate."""
    fills = sorted({row["fill"] for row in result["rows"]})
    found = {(row["tokens"], row["hidden"], row["fill"]): row for row in result["rows"]}
    sizes = sorted({(row["tokens"], row["hidden"]) for row in result["rows"]})
    names = ("ratio", "ratio_of_index_copy_alone", "ratio_with_items")
    body = []
    for tokens, hidden in sizes:
        last = found[tokens, hidden, fills[-1]]
        rows = [found[tokens, hidden, fill] for fill in fills]
        ratios = [f"{row[name]:.3f}" for name in names for row in rows]
        body.append((f"{tokens:,}", f"{hidden:,}", *ratios, f"{last['stock_ms']:.2f}", f"{last['patched_ms']:.2f}"))
    words = ("fill", "`index_copy_` alone,", "items,")
    head = ("tokens", "hidden", *(f"{word} {fill}" for word in words for fill in fills))
    head += (f"stock, ms at {fills[-1]}", "patched")
    worst = result["worst_ratio_at_fill"]
    equal = "equal in every case" if result["bits_equal"] else "**NOT equal**"
    goals = [f"at fill {fill} {_goal(worst[fill], most)}" for fill, most in (("0.9", 0.25), ("0.3", 0.15))]
    text = f"Largest ratio {', '.join(goals)}. Bits {equal}. {result['pairs']} pairs each. {_measured(result)}"
    return f"{table(head, body)}\n\n{text}"


def startup_time(result: Result) -> str:
    """Figure 3, ours and peers."""
    words = {"none": "nothing", **ROUTES}
    body = []
    for name, route in words.items():
        row = result["rows"][name]
        ratios = f"{row['cpu_ratio']:.3f}", f"{row['wall_ratio']:.3f}"
        added = [each for each in row["modules_added"] if each != "sitecustomize"]
        site = " and sitecustomize" if len(added) < len(row["modules_added"]) else ""
        body.append((route, f"{row['cpu_ms']:.2f}", *ratios, f"{row['cpu_ms_more']:.2f}", f"{len(added)}{site}"))
    body += [(f"{name} \\*", "", "", f"{ratio:g}", "", "") for name, ratio in PEERS.items()]
    head = ("route", "CPU ms", "CPU, ratio", "wall, ratio", "CPU ms more", "modules more")
    ours = [row for name, row in result["rows"].items() if name not in ("none", "control")]
    worst = max(row["cpu_ratio"] for row in ours)
    note = "\\* measured by us earlier, on another occasion: CPython 3.12, one core, 25 paired runs."
    text = f"Worst route, by CPU time: {_goal(worst, 1.05)}. {result['rounds']} rounds. {_measured(result)}"
    return f"{table(head, body)}\n\n{text}\n{note}"


def import_time(result: Result) -> str:
    """Figure 4."""
    words = {
        "warm": "every `.pyc` warm",
        "cold": "the runner has no `.pyc`",
        "all cold": "the runner has none, and ours have none",
    }
    body = [
        (
            words[case],
            f"{row['stock_ms']:.1f}",
            f"{row['patched_ms']:.1f}",
            f"{row['more_ms']:.1f}",
            f"{row['ratio']:.2f}",
            row["pairs"],
        )
        for case, row in result["rows"].items()
    ]
    stages, more = result["stages"], result["rows"]["warm"]["more_ms"]
    names = {
        "our_modules_ms": "first import of our own modules",
        "code_and_source_ms": "stock code object and source",
        "first_decision_ms": "first decision, graft included",
        "decision_ms": "each further decision",
    }
    met = "met" if more < 3 else "**missed**"
    shares = "; ".join(f"{words} {stages[name]:.1f} ms" for name, words in names.items())
    head = ("import of the runner", "stock, ms", "patched, ms", "more, ms", "ratio", "pairs")
    return (
        f"{table(head, body)}\n\n{result['lines']:,} lines, vLLM {result['vllm']}, CPU time. More: {more:.1f} ms "
        f"(goal under 3: {met}). Of it, in one process: {shares}. The stock code object is loaded in both.\n"
        f"Every unrelated import: our finder takes {result['finder_ns']:.0f} ns. {_measured(result)}"
    )


def scale(result: Result) -> str:
    """Figure 5."""
    names = list(result["rows"][0]["ms"])
    body = [
        (f"{row['lines']:,}", f"{row['bytes']:,}", *(f"{row['ms'][name]:.2f}" for name in names))
        for row in result["rows"]
    ]
    growth = ", ".join(f"{name} {result['growth'][name]:.1f}" for name in names)
    text = f"From the first to the last row lines grow {result['lines_growth']:.0f} times; time: {growth} times."
    return f"{table(('lines', 'bytes', *(f'{name}, ms' for name in names)), body)}\n\n{text} {_measured(result)}"


def throughput(result: Result) -> str:
    """Figure 6."""
    body = [
        (
            name if name in ("stock", "unset") else f"{int(name):,}",
            row["encoder_calls"] or "",
            f"{row['requests_per_second']:.2f}",
            f"{row['wall_ratio']:.3f}",
            f"{row['cpu_ratio']:.3f}",
        )
        for name, row in result["rows"].items()
    ]
    head = ("budget", "encoder calls", "requests/s", "ratio", "ratio by CPU time")
    equal = "equal in every turn" if result["tokens_equal"] else "**NOT equal**"
    what = f"{result['requests']} requests of {result['images']} images of {result['patches_of_an_image']:,} patches"
    return f"{table(head, body)}\n\n{what}, {result['rounds']} rounds. Tokens {equal}. {_measured(result)}"


TABLES: dict[str, Callable[[Result], str]] = {
    each.__name__: each for each in (encoder_memory, merge_time, startup_time, import_time, scale, throughput)
}
