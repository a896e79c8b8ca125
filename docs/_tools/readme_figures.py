"""Figures in READMEs, which no Sphinx builds: blocks between marks, written from templates in `docs/_readme`.

python docs/_tools/readme_figures.py     writes all blocks again, from `benchmarks/results`

A template is Markdown with figures in braces: {replay; MsPacman; SB3; held}. In a README its block stands between
`<!-- figures of replay -->` and `<!-- end of figures -->`.
"""

from __future__ import annotations

import re
from pathlib import Path

from results import ROOT, figure

TEMPLATES = ROOT / "docs" / "_readme"
BLOCK = re.compile(r"(?<=<!-- figures of )(\w+)( -->\n).*?(?=<!-- end of figures -->)", re.DOTALL)


def written(readme: Path) -> str:
    """Returns the text of a README with its figures as they were measured last."""
    return BLOCK.sub(lambda found: found[1] + found[2] + block(found[1]), readme.read_text())


def block(name: str) -> str:
    """Returns the text that a template makes."""
    template = (TEMPLATES / f"{name}.md").read_text()
    return re.sub(r"{([^{};]+;[^{}]+)}", lambda found: figure(*map(str.strip, found[1].split(";"))), template)


def readmes() -> list[Path]:
    """Returns the READMEs that have such blocks."""
    paths = sorted([*ROOT.glob("README.md"), *ROOT.glob("*/*/README.md")])
    return [path for path in paths if BLOCK.search(path.read_text())]


if __name__ == "__main__":
    for path in readmes():
        path.write_text(written(path))
