"""What the core's tests share: the codecs that this environment has."""

from __future__ import annotations

import numpy as np
import pytest

from compressed_array import available_codecs

CODECS = sorted(name for name, info in available_codecs().items() if info.available)


@pytest.fixture(params=CODECS)
def codec(request: pytest.FixtureRequest) -> str:
    """Each codec that can be used here, by name."""
    return str(request.param)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
