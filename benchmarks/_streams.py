"""What SB3 hands to a replay buffer, kept on disk frame by frame and played again exactly as it came.

A frame is kept once; the stacks are built again while playing. They come as SB3's own wrappers give them, channel first
views of channel last memory, and `next_obs` has the true last observation where an episode ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# Where `nox` keeps what can be made again.
CACHE = Path(__file__).parent.parent / ".nox" / "streams"
PARTS = ("frames", "ends", "actions", "rewards", "dones", "timeouts")


class Step(NamedTuple):
    """One call of a replay buffer's `add`."""

    obs: Array
    next_obs: Array
    action: Array
    reward: Array
    done: Array
    infos: list[dict[str, Any]]


class Stream:
    """A recording, played from its beginning.

    `frames` is (steps + 1, envs, ..., channels): the newest frame before each step, and the one after the last step.
    With `envs`, the first ones of those that were recorded.
    `ends` holds the frames that only the last observation of an episode shows, in the order in which episodes ended.
    """

    def __init__(self, folder: Path, stack: int, channels: slice = slice(None), envs: int | None = None) -> None:
        # Mapped, so that none of it counts as memory that a process has allocated.
        frames, ends, *rest = (np.load(folder / f"{part}.npy", mmap_mode="r") for part in PARTS)
        shown = np.nonzero(rest[PARTS.index("dones") - 2][:, :])[1] < (envs or frames.shape[1])
        self.frames = frames[:, :envs, ..., channels]
        self.ends = ends[..., channels] if shown.all() else ends[np.flatnonzero(shown)][..., channels]
        self.actions, self.rewards, self.dones, self.timeouts = (np.array(part[:, :envs]) for part in rest)
        self.stack = stack
        self.steps, self.envs = self.dones.shape
        self.channels = self.frames.shape[-1]
        self.ends_before = np.cumsum(self.dones.sum(1)) - self.dones.sum(1)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.frames.dtype

    @property
    def item_shape(self) -> tuple[int, ...]:
        """The shape of one observation of one environment."""
        *sides, channels = self.frames.shape[2:]
        return (channels * self.stack, *sides)

    def play(self) -> Iterator[Step]:
        """The steps in their order, and from the first again after the last."""
        while True:
            now = self._push(np.zeros(self._stacked_shape, self.dtype), self.frames[0])
            for t in range(self.steps):
                new = self._push(now, self.frames[t + 1])
                after = new.copy()
                for i, env in enumerate(np.flatnonzero(self.dones[t])):
                    new[env, ..., : -self.channels] = 0
                    after[env, ..., -self.channels :] = self.ends[self.ends_before[t] + i]
                infos = [{"TimeLimit.truncated": bool(timeout)} for timeout in self.timeouts[t]]
                yield Step(
                    channel_first(now),
                    channel_first(after),
                    self.actions[t],
                    self.rewards[t],
                    self.dones[t],
                    infos,
                )
                now = new

    @property
    def _stacked_shape(self) -> tuple[int, ...]:
        return (*self.frames.shape[1:-1], self.channels * self.stack)

    def _push(self, stacked: Array, frame: Array) -> Array:
        """A stack one frame later."""
        new = np.empty_like(stacked)
        # To move all memory by one frame's channels moves every pixel's by one; what comes in from the next pixel is
        # then overwritten.
        new.reshape(-1)[: -self.channels] = stacked.reshape(-1)[self.channels :]
        new[..., -self.channels :] = frame
        return new

    @cached_property
    def numbers(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Which frames `obs` and `next_obs` are made of, as numbers for `frame`: twice (steps, envs, stack)."""
        t = np.arange(self.steps + 1)[:, None]
        began = np.zeros((self.steps + 1, self.envs), np.int64)
        began[1:] = np.where(self.dones, t[1:], 0)
        began = np.maximum.accumulate(began)
        which = t[..., None] + np.arange(1 - self.stack, 1)
        stacks = np.where(which < began[..., None], 0, 1 + which * self.envs + np.arange(self.envs)[:, None])
        obs, after = stacks[:-1].copy(), stacks[1:].copy()
        after[self.dones, :-1] = obs[self.dones, 1:]
        after[self.dones, -1] = 1 + (self.steps + 1) * self.envs + np.arange(len(self.ends))
        return obs.astype(np.int32), after.astype(np.int32)

    def frame(self, number: int) -> Array:
        """One frame, channel first: 0 is the blank one before an episode's first."""
        if number == 0:
            return np.zeros((self.channels, *self.frames.shape[2:-1]), self.dtype)
        step, env = divmod(number - 1, self.envs)
        frame = self.frames[step, env] if step <= self.steps else self.ends[number - 1 - (self.steps + 1) * self.envs]
        return np.moveaxis(frame, -1, 0)

    @cached_property
    def distinct(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """`numbers` with equal frames counted once, (2, steps, envs, stack), and the first `frame` of each number.

        New numbers come in the order of the steps.
        """
        numbers = np.stack(self.numbers)
        in_order, same = np.unique(np.moveaxis(numbers, 0, 1), return_inverse=True)
        digests = [blake2b(self.frame(int(n)).tobytes(), digest_size=16).digest() for n in in_order]
        known: dict[bytes, int] = {}
        first: list[int] = []
        renumbered = np.full(len(in_order), -1, np.int32)
        for place in same.reshape(-1):
            if renumbered[place] < 0:
                renumbered[place] = known.setdefault(digests[place], len(known))
                if renumbered[place] == len(first):
                    first.append(int(in_order[place]))
        return np.moveaxis(renumbered[same], 1, 0), np.array(first, np.int32)

    def at(self, row: int, env: int) -> tuple[Array, Array]:
        """`obs` and `next_obs` of one transition, found without playing."""
        obs, after = (np.concatenate([self.frame(int(n)) for n in numbers[row, env]]) for numbers in self.numbers)
        return obs, after


def channel_first(batch: Array) -> Array:
    """As SB3 turns images: a view, the memory stays channel last."""
    return batch.transpose(0, 3, 1, 2) if batch.ndim == 4 else batch
