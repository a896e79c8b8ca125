"""The code in the documents that uses the adapter runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from document_helpers.code_blocks import document_id, documents_of, run_blocks

pytestmark = pytest.mark.long

DOCUMENTS = documents_of("torch")


def test_the_code_in_the_documents_runs(tmp_path: Path) -> None:
    run_blocks("torch", DOCUMENTS, tmp_path, options=())


def test_there_is_code() -> None:
    assert "adapters/torch/README.md" in {document_id(document) for document in DOCUMENTS}
