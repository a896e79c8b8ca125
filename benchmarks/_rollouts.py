"""One rollout buffer in a process of its own: what it holds, or its speed beside SB3's.

    python -m benchmarks._rollouts held <steps> <envs> <contender> [rollouts]
    python -m benchmarks._rollouts speed <steps> <envs> <contender>

The last line it prints is JSON.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer

from benchmarks._held import private_bytes
from benchmarks._measure import in_turns
from benchmarks._recordings import stream as open_stream
from benchmarks._streams import Array, Stream

REFERENCE = "SB3"
THEIR_CODECS, OUR_CODECS = ("zstd-3", "lz4-frame/1", "rle-jit"), ("auto", "delta", "delta-zstd", "zstd-3")
OURS = "CompressedRolloutBuffer "
GAME, BATCH, EPOCHS = "MsPacman", 256, 4
WARM_UP = 128  # steps
ROUNDS = {1024: 21, 32768: 5}  # by the number of observations in a rollout


def stock(**arguments: Any) -> Any:
    return RolloutBuffer(**arguments)


def theirs(codec: str, **arguments: Any) -> Any:
    from sb3_extra_buffers.compressed import CompressedRolloutBuffer, find_buffer_dtypes

    space = arguments["observation_space"]
    dtypes = find_buffer_dtypes(obs_shape=space.shape, elem_dtype=space.dtype, compression_method=codec)
    return CompressedRolloutBuffer(**arguments, dtypes=dtypes, compression_method=codec)


def ours(codec: str, **arguments: Any) -> Any:
    from compressed_array_sb3 import CompressedRolloutBuffer

    return CompressedRolloutBuffer(**arguments, codec=codec)


CONTENDERS: dict[str, Callable[..., Any]] = {
    REFERENCE: stock,
    **{f"extra-buffers {codec}": partial(theirs, codec) for codec in THEIR_CODECS},
    **{OURS + codec: partial(ours, codec) for codec in OUR_CODECS},
}


class Rollouts:
    """A buffer that is filled with one rollout after another, each read for some epochs."""

    def __init__(self, stream: Stream, contender: str, steps: int, envs: int) -> None:
        self.steps, self.envs = steps, envs
        self.buffer = CONTENDERS[contender](
            buffer_size=steps,
            observation_space=space_of(stream),
            action_space=spaces.Discrete(int(stream.actions.max()) + 1),
            device="cpu",
            gae_lambda=0.95,
            gamma=0.99,
            n_envs=envs,
        )
        self.observations = observations(stream, envs)
        self._zeros, self._values = np.zeros(envs), torch.zeros(envs)

    def fill(self) -> float:
        """Collect a rollout; says how long the buffer took."""
        start = time.perf_counter()
        self.buffer.reset()
        spent = time.perf_counter() - start
        for obs in islice(self.observations, self.steps):
            start = time.perf_counter()
            self.buffer.add(obs, self._zeros, self._zeros, self._zeros, self._values, self._values)
            spent += time.perf_counter() - start
        start = time.perf_counter()
        self.buffer.compute_returns_and_advantage(self._values, self._zeros)
        return spent + time.perf_counter() - start

    def read(self) -> float:
        """All epochs of minibatches; says how long."""
        start = time.perf_counter()
        for _ in range(EPOCHS):
            for _ in self.buffer.get(BATCH):
                pass
        return time.perf_counter() - start

    def whole(self) -> float:
        return self.fill() + self.read()


@cache
def space_of(stream: Stream) -> spaces.Box:
    """One for all buffers, since it is as large as four observations."""
    return spaces.Box(0, 255, stream.item_shape, np.uint8)


def observations(stream: Stream, envs: int) -> Iterator[Array]:
    """Observations of more environments than were recorded: of those, at different times."""
    plays = [stream.play() for _ in range(envs // stream.envs)]
    for i, play in enumerate(plays):
        next(islice(play, i * stream.steps // len(plays), None))
    while True:
        # Channel last in memory, as they come from SB3's wrappers.
        parts = [next(play).obs.transpose(0, 2, 3, 1) for play in plays]
        yield np.concatenate(parts).transpose(0, 3, 1, 2)


def check(rollouts: Rollouts, stream: Stream) -> None:
    """Whether the rollout that is held is the one that was collected."""
    buffer = rollouts.buffer
    rollouts.observations = observations(stream, rollouts.envs)
    rollouts.fill()
    expected = list(islice(observations(stream, rollouts.envs), 64))
    np.random.seed(0)  # noqa: NPY002 - what SB3 draws from
    order = np.random.permutation(rollouts.steps * rollouts.envs)  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    first = next(buffer.get(BATCH)).observations.numpy()
    seen = 0
    for place, got in zip(order, first, strict=False):
        env, step = divmod(int(place), rollouts.steps)
        if step < len(expected):
            seen += 1
            assert np.array_equal(got, expected[step][env]), f"another observation at {step}, {env}"
    assert seen


def trimmed_bytes() -> int:
    """The process's memory without what it has freed: of a buffer that is made anew with every rollout, all of one."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return private_bytes()


def held(steps: str, envs: str, contender: str, count: str = "2") -> dict[str, Any]:
    stream = open_stream(GAME)
    # What comes with the first use and does not grow with a buffer belongs in what was there before, and so does what
    # plays the game.
    small = Rollouts(stream, contender, WARM_UP, int(envs))
    small.whole()
    small.whole()
    before = trimmed_bytes()
    rollouts = Rollouts(stream, contender, int(steps), int(envs))
    rollouts.observations = small.observations
    for _ in range(int(count)):  # the second time, there is the memory of the first
        rollouts.fill()
    found = {"held": trimmed_bytes() - before}
    check(rollouts, stream)
    return found


def speed(steps: str, envs: str, contender: str) -> dict[str, Any]:
    stream = open_stream(GAME)
    mine, other = (Rollouts(stream, name, int(steps), int(envs)) for name in (contender, REFERENCE))
    rounds = ROUNDS[int(steps) * int(envs)]
    return {
        "collect": in_turns(mine.fill, other.fill, rounds),
        "epochs": in_turns(mine.read, other.read, rounds),
        "rollout": in_turns(mine.whole, other.whole, rounds),
    }


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    print(json.dumps({"held": held, "speed": speed}[what](*arguments)))
