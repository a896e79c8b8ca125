"""Every block of Python in every document is run by some environment, and those of the core's pages run here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from document_helpers.code_blocks import (
    DOCUMENTS,
    FILES,
    PROVIDES,
    ROOT,
    blocks,
    document_id,
    documents_of,
    fences,
    is_python,
    run_blocks,
)

PAGES = [document for document in documents_of("core") if document.is_relative_to(ROOT / "docs")]


def test_there_are_pages_and_blocks() -> None:
    assert PAGES
    assert {block.environment for block in blocks()} == set(PROVIDES)


@pytest.mark.long
def test_the_code_of_the_pages_runs(tmp_path: Path) -> None:
    run_blocks("core", PAGES, tmp_path)


def test_every_block_has_an_environment_that_runs_it() -> None:
    assert [f"{block.name} imports {block.imports}" for block in blocks() if block.environment is None] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=document_id)
def test_python_is_marked_in_the_one_way_that_is_run(document: Path) -> None:
    marks = {about for _, about, _ in fences(document) if is_python(about)}
    assert marks <= {"python"}


@pytest.mark.parametrize("environment", PROVIDES)
def test_the_blocks_of_an_environment_are_run_by_its_session(environment: str) -> None:
    sessions = (ROOT / "noxfile.py").read_text()
    folders = re.search(rf'"{environment}": \(\s*\(([^)]*)\)', sessions)
    assert folders is not None, f"the noxfile has no environment {environment}"
    for name in FILES[environment]:
        assert f'"{Path(name).parent}"' in folders[1]
        text = (ROOT / name).read_text()
        assert f'documents_of("{environment}")' in text
        assert re.search(rf'run_blocks\("{environment}"', text)
