"""The code in the documents runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from document_helpers.code_blocks import document_id, documents_of, run_blocks

pytestmark = pytest.mark.long

# Whose code needs numpy alone; that of the pages is run by `tests/docs`, where every codec is installed.
READMES = [document for document in documents_of("core") if document.name == "README.md"]


def test_there_is_code_in_the_documents() -> None:
    assert [document_id(document) for document in READMES] == ["README.md", "packages/compressed-array/README.md"]


def test_the_code_in_the_documents_runs(tmp_path: Path) -> None:
    run_blocks("core", READMES, tmp_path)
