"""Spaces of actions, and of observations that SBX puts side by side in one vector."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

DISCRETE, BOX = spaces.Discrete(6), spaces.Box(-1, 1, (2,), np.float64)
VECTORS = spaces.Dict(
    {
        "near": spaces.Box(-np.inf, np.inf, (5,), np.float32),
        "far": spaces.Box(-np.inf, np.inf, (11,), np.float32),
        "last": spaces.Box(-np.inf, np.inf, (1,), np.float32),
    }
)
