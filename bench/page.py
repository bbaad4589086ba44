"""Write the tables of docs/benchmarks.md between its markers, from the benches' JSON results.

    python bench/page.py [--check]

`<!-- NAME -->` and `<!-- /NAME -->` enclose what belongs to NAME.json; the rest of the page is prose.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from textwrap import fill

from measuring import RESULTS
from tables import TABLES

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"


def filled(page: str, results: Path) -> str:
    """The page with every table whose JSON is there written anew.

    Raises:
        ValueError: the page lacks a bench's markers.
    """
    for name, make in TABLES.items():
        path = results / f"{name}.json"
        if not path.exists():
            continue
        parts = re.split(rf"(?s)(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)", page)
        if len(parts) != 2:
            raise ValueError(f"the page has {len(parts) - 1} places for {name}")
        made = make(json.loads(path.read_text("utf-8"))).split("\n")
        wrapped = [line if line.startswith("|") else fill(line, 120, break_on_hyphens=False) for line in made]
        page = "\n".join([parts[0] + wrapped[0], *wrapped[1:], parts[1]])
    return page


def main() -> int:
    """Write the tables, or with --check only say whether they are those of the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder with the JSON")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page with the markers")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 when a table is old")
    options = parser.parse_args()
    page = options.page.read_text("utf-8")
    made = filled(page, options.results)
    if options.check:
        return int(made != page)
    options.page.write_text(made, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
