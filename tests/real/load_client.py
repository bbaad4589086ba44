"""Runs in the Python that has the OpenAI client: many requests at once, again and again, and JSON about the answers.

usage: load_client.py PLAN      PLAN is a JSON file: {"url", "requests": [...], "minutes", "at_once", "hang_up_every"}
Each round asks `at_once` requests at the same time, taken in turn; after every `hang_up_every` rounds one more client
closes its connection at its first token, which aborts its request. It stops at the first error.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
from asking import TOKENS, TOKENS_TO_ABORT, messages_of


def ask(client: openai.OpenAI, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """One answer: its tokens and their log-probabilities."""
    extra = {"ignore_eos": True, "return_token_ids": True}
    answer = client.chat.completions.create(
        model="tiny", messages=messages, max_tokens=TOKENS, temperature=0, logprobs=True, extra_body=extra
    )
    (choice,) = answer.choices
    return {"tokens": choice.token_ids, "logprobs": [each.logprob for each in choice.logprobs.content]}


def hang_up(client: openai.OpenAI, messages: list[dict[str, Any]]) -> None:
    """Ask for many tokens and close the connection at the first."""
    with client.chat.completions.create(
        model="tiny", messages=messages, max_tokens=TOKENS_TO_ABORT, stream=True, extra_body={"ignore_eos": True}
    ) as stream:
        next(iter(stream))


def main(plan_file: str) -> None:
    """Keep the server busy; print {"rounds", "answers": [[request's number, answer], ...], "hung_up", "errors"}."""
    plan = json.loads(Path(plan_file).read_text("utf-8"))
    client = openai.OpenAI(base_url=plan["url"], api_key="none", max_retries=0, timeout=300)
    messages = [messages_of(request) for request in plan["requests"]]
    turn = itertools.cycle(range(len(messages)))
    found: dict[str, Any] = {"rounds": 0, "answers": [], "hung_up": 0, "errors": []}
    end = time.monotonic() + 60 * plan["minutes"]
    with ThreadPoolExecutor(plan["at_once"]) as pool:
        while time.monotonic() < end and not found["errors"]:
            numbers = [next(turn) for _ in range(plan["at_once"])]
            asked = [pool.submit(ask, client, messages[number]) for number in numbers]
            try:
                if found["rounds"] % plan["hang_up_every"] == 0:
                    next(turn)  # else the same requests would meet in every round
                    hang_up(client, messages[numbers[0] - 1])
                    found["hung_up"] += 1
                found["answers"] += [[number, answer.result()] for number, answer in zip(numbers, asked, strict=True)]
            except Exception as error:
                found["errors"].append(f"{type(error).__name__}: {error}".partition("\n")[0])
            found["rounds"] += 1
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
