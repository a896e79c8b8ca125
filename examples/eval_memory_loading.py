"""What rollout buffers hold, and how long reading takes, for every codec and level that sb3-extra-buffers lists.

    pip install -e "packages/compressed-array[fast]" -e "adapters/sb3[atari,progress]"
    pip install sb3-extra-buffers zstd                  # to have its figures beside ours
    python -m examples.eval_memory_loading              # 10,000 transitions of MsPacman; half an hour, mostly zstd22
    python -m examples.eval_memory_loading --codecs zstd-3 rle-jit auto
    python -m examples.eval_memory_loading --smoke      # some seconds

The same games and columns as in `eval_memory_saving`, but each buffer is a rollout, of which memory is taken when it is
full. Seconds are of CPU time to read all of it in minibatches of 64, for the first time.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer

from compressed_array_sb3 import CompressedRolloutBuffer

sys.path.insert(0, str(Path(__file__).parents[1]))  # for a run by the path of this file
from examples.eval_memory_saving import (
    BASELINE,
    CHECKS,
    ENVS,
    OURS,
    SHAPE,
    WARM_UP,
    Cost,
    main,
    make_other,
    own_memory,
    play,
    said_by,
)

BATCH = 64


def make_rollout(who: str, codec: str, space: spaces.Box, steps: int) -> Any:
    """A buffer for `steps` of each environment."""
    arguments: dict[str, Any] = {
        "buffer_size": steps,
        "observation_space": space,
        "action_space": spaces.Discrete(9),
        "device": "cpu",
        "n_envs": ENVS,
    }
    if who == BASELINE:
        return RolloutBuffer(**arguments)
    if who == OURS:
        return CompressedRolloutBuffer(**arguments, compression_method=codec)
    return make_other("CompressedRolloutBuffer", codec, arguments)


def measure_loading(who: str, codec: str, folder: Path, steps: int) -> Cost:
    """What a rollout buffer costs, told by a process that does nothing else."""
    torch.set_num_threads(1)
    space = spaces.Box(0, 255, (SHAPE[-1], *SHAPE[1:3]), np.uint8)
    zeros, values = np.zeros(ENVS), torch.zeros(ENVS)

    def filled(count: int) -> Any:
        buffer = make_rollout(who, codec, space, count)
        for obs, _, _ in play(folder, count):
            buffer.add(obs, zeros, zeros, zeros, values, values)
        buffer.compute_returns_and_advantage(values, zeros)
        return buffer

    # As in `measure_saving`: what comes with the first use does not count, and the small one stays.
    small = filled(min(steps, WARM_UP))
    for _ in small.get(BATCH):
        pass
    before = own_memory()
    buffer = filled(steps)
    real = own_memory(trim=False) - before
    says = buffer.memory_usage().stored if who == OURS else said_by(who, [buffer.observations])
    start = time.process_time()
    for _ in buffer.get(BATCH):
        pass
    seconds = time.process_time() - start
    check_rollout(buffer, folder, steps, f"{who} {codec}")
    return Cost(says, real, seconds)


def check_rollout(buffer: Any, folder: Path, steps: int, name: str) -> None:
    """Fail unless some observations of a rollout are those that were added."""
    np.random.seed(0)  # noqa: NPY002  # what SB3 draws from
    order = np.random.permutation(steps * ENVS)[:CHECKS]  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    read: list[Any] = []
    for batch in buffer.get(BATCH):
        read.extend(batch.observations.numpy())
        if len(read) >= len(order):
            break
    # Flattened, all steps of an environment come before those of the next.
    wanted: dict[int, list[tuple[int, int]]] = {}
    for place, number in enumerate(order):
        env, row = divmod(int(number), steps)
        wanted.setdefault(row, []).append((env, place))
    for row, (obs, _, _) in enumerate(play(folder, steps)):
        for env, place in wanted.get(row, ()):
            assert np.array_equal(read[place], obs[env]), f"{name}: another value"


if __name__ == "__main__":
    main(__doc__, measure_loading, "load")
