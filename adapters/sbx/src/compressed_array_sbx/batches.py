"""What `sample_jax` returns: a pytree of JAX arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import jax
    import numpy as np
    import numpy.typing as npt

__all__ = ["JaxReplaySamples"]


class JaxReplaySamples(NamedTuple):
    """Transitions, of the same shapes and dtypes for every batch of one size.

    Dtypes are those that JAX makes of the buffer's: without `jax_enable_x64`, of 64 bits it keeps 32.
    """

    observations: Any  # an array, or a dict with one for each key
    actions: jax.Array
    next_observations: Any  # of n steps, what follows the last of them
    dones: jax.Array  # (batch,); an episode that was cut off by a time limit is not done
    rewards: jax.Array  # (batch,); of n steps, their discounted sum
    discounts: jax.Array | None = None  # (batch,); of n steps, what the value of next_observations counts
    weights: jax.Array | None = None  # (batch,); of draws by priority, at most 1
    indices: npt.NDArray[np.int64] | None = None  # of draws by priority, for `update_priorities`; on the host
