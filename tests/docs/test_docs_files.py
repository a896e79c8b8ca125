"""What scripts of the pages have made is what they make today, and links between documents lead somewhere."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from document_helpers.code_blocks import DOCUMENTS, ROOT, document_id

TOOLS = ROOT / "docs" / "_tools"
MADE = {"plots.py": ROOT / "docs" / "images", "inventories.py": ROOT / "docs" / "_inventories"}
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^( *)(`{3,})[^\n]*\n.*?^\1\2 *$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("script", MADE)
def test_what_is_kept_is_what_the_script_makes(script: str, tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(TOOLS / script), str(tmp_path)], check=True)
    made, kept = ({file.name: file.read_bytes() for file in folder.iterdir()} for folder in (tmp_path, MADE[script]))
    assert made
    assert made == kept, f"what it is made from has changed: python docs/_tools/{script}"


def test_figures_in_readmes_are_those_that_were_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))
    made = importlib.import_module("readme_figures")
    readmes = made.readmes()
    assert {readme.parent.name for readme in readmes} >= {ROOT.name, "sb3", "sbx", "torch"}
    outdated = [str(readme.relative_to(ROOT)) for readme in readmes if made.written(readme) != readme.read_text()]
    assert outdated == [], "they were measured anew: python docs/_tools/readme_figures.py"


def anchors(document: Path) -> set[str]:
    """What GitHub, and these pages, call the headings of a document."""
    headings = re.findall(r"^#+ +(.*?) *$", FENCED.sub("", document.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=document_id)
def test_links_to_files_lead_somewhere(document: Path) -> None:
    broken = []
    for link in LINK.findall(FENCED.sub("", document.read_text())):
        parts = urlsplit(link)
        if parts.scheme:
            continue
        target = (document.parent / unquote(parts.path)).resolve() if parts.path else document
        if not target.exists() or (parts.fragment and target.suffix == ".md" and parts.fragment not in anchors(target)):
            broken.append(link)
    assert broken == []
