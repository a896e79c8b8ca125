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

    Dtypes are those that JAX makes of the buffer's: without `jax_enable_x64`, it keeps 32 of 64 bits.

    With n-step returns, the value of `next_observations` counts `(1 - dones) * discounts` in a target: `discounts`
    depend on how many steps there were, and are not 0 where an episode terminates; `dones` is 1 there.
    """

    observations: Any  # an array, or a dict with one for each key
    actions: jax.Array
    next_observations: Any  # with n-step returns, what follows the last step
    dones: jax.Array  # (batch,); an episode that was cut off by a time limit is not done
    rewards: jax.Array  # (batch,); with n-step returns, the discounted sum
    discounts: jax.Array | None = None  # (batch,); with n-step returns only, see above
    weights: jax.Array | None = None  # (batch,); of draws by priority only, at most 1
    indices: npt.NDArray[np.int64] | None = None  # of draws by priority only, for `update_priorities`
