"""What the core's tests are run with: each codec that this environment has, and a generator."""

from __future__ import annotations

import numpy as np
import pytest

from core_helpers.codecs import CODECS


@pytest.fixture(params=CODECS)
def codec(request: pytest.FixtureRequest) -> str:
    """Each codec that can be used here, by name."""
    return str(request.param)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
