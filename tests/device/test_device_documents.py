"""The code in the documents that uses arrays on a torch device runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from document_helpers.code_blocks import document_id, documents_of, run_blocks

pytestmark = pytest.mark.long

DOCUMENTS = documents_of("device")


def test_the_code_in_the_documents_runs(tmp_path: Path) -> None:
    run_blocks("device", DOCUMENTS, tmp_path)


def test_there_is_code() -> None:
    assert "packages/compressed-array/README.md" in {document_id(document) for document in DOCUMENTS}
