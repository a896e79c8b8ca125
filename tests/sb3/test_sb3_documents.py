"""The code in the documents that uses the adapter runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from document_helpers.code_blocks import document_id, documents_of, run_blocks

pytestmark = pytest.mark.long

DOCUMENTS = documents_of("sb3")


@pytest.mark.parametrize("document", DOCUMENTS, ids=document_id)
def test_the_code_in_the_documents_runs(document: Path, tmp_path: Path) -> None:
    run_blocks(document, "sb3", tmp_path)


def test_there_is_code() -> None:
    assert {"README.md", "adapters/sb3/README.md"} <= {document_id(document) for document in DOCUMENTS}
