"""What the core's tests share: the codecs that this environment has, and sensible limits for hypothesis."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from compressed_array import available_codecs

# A shared or busy machine is slow now and then; how long an example takes is nothing these tests are about.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", settings.get_profile("default"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

CODECS = sorted(name for name, info in available_codecs().items() if info.available)


@pytest.fixture(params=CODECS)
def codec(request: pytest.FixtureRequest) -> str:
    """Each codec that can be used here, by name."""
    return str(request.param)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
