"""What the tests with JAX share: SBX, imported; and programs that one training has compiled, for the next to use."""

from __future__ import annotations

import warnings

import jax
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # TensorFlow Probability uses what JAX is about to take back
    import sbx  # noqa: F401 - for the tests that import it after this


@pytest.fixture(scope="session", autouse=True)
def _compiled_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Most of a short training is compiling, and the one that it is compared with compiles the same programs."""
    jax.config.update("jax_compilation_cache_dir", str(tmp_path_factory.getbasetemp().parent / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
