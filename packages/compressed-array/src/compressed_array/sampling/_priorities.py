"""Prioritized experience replay: how errors become priorities, and what makes up for drawing by them in a loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array.sampling._tree import PriorityTree


def priorities_of(errors: npt.NDArray[Any], alpha: float, epsilon: float) -> npt.NDArray[np.float64]:
    """Returns `(|error| + epsilon) ** alpha` for each error.

    Args:
        errors: How far off values were; their signs do not matter.
        alpha: How much priorities count; with 0 all are 1.
        epsilon: What is added to each error, so that none is zero.

    >>> import numpy as np
    >>> priorities_of(np.array([-3.0, 0.0]), alpha=1.0, epsilon=1.0)
    array([4., 1.])
    """
    priorities: npt.NDArray[np.float64] = np.abs(errors, dtype=np.float64)
    priorities += epsilon
    priorities **= alpha
    return priorities


def importance_weights(tree: PriorityTree, positions: npt.NDArray[Any], beta: float) -> npt.NDArray[np.float32]:
    """Returns the weights, at most 1, that the losses of things drawn from a tree are multiplied by.

    Args:
        tree: What they were drawn from.
        positions: Where in the tree they are.
        beta: How much the weights correct for the probabilities: 0 for not at all, 1 for wholly.

    >>> import numpy as np
    >>> tree = PriorityTree(4)
    >>> tree.update([0, 1], [1.0, 4.0])
    >>> importance_weights(tree, np.array([0, 1]), beta=1.0)
    array([1.  , 0.25], dtype=float32)
    """
    # (N * P)^-beta over its largest value, that of the least priority, comes to this.
    weights = tree[positions]
    weights /= tree.min
    weights **= -beta
    return weights.astype(np.float32)
