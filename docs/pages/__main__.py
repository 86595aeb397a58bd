"""Write all generated pages into a folder."""

import re
import sys
from pathlib import Path

from docs.pages import api, benchmarks, blocks, cli, metrics, tables

PAGES = {
    "cli": cli.page,
    "api": api.page,
    "metrics": metrics.page,
    "tables": tables.page,
    "benchmarks": benchmarks.page,
    "tested": blocks.page,
}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (folder / f"{name}.md").write_text(page())
    known = (folder / "metrics.md").read_text()
    named = {one for path in folder.parent.rglob("*.md") for one in re.findall(r"`(tidings_\w+)", path.read_text())}
    if unknown := sorted(one for one in named if f"`{one}`" not in known):
        sys.exit(f"the documentation names metrics that there are not: {', '.join(unknown)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
