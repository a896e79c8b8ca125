"""Steps for storages of TorchRL, and what it means that two of them hold the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.data import LazyTensorStorage, ReplayBuffer

from compressed_array_torch.torchrl import CompressedStorage
from torch_helpers.histories import bits

CODECS: list[Any] = [
    None,
    "auto",
    "delta",
    "zstd-3",
    {"pixels": "delta", ("next", "halves"): None, "flags": "zstd-1", "wide": "zstd-1"},
]


class Stream:
    """Steps of environments one after the other: stacks of frames that move on by one, and whatever else there is."""

    def __init__(self, lanes: tuple[int, ...] = (), seed: int = 0, size: int = 12) -> None:
        self._rng, self._lanes, self._size = torch.Generator().manual_seed(seed), lanes, size
        self._stack, self.count = self._begin(), 0

    def _begin(self) -> torch.Tensor:
        return self._frame().unsqueeze(-3).expand(*self._lanes, 4, self._size, self._size).clone()

    def _frame(self) -> torch.Tensor:
        frame = torch.zeros(*self._lanes, self._size, self._size, dtype=torch.uint8)
        frame[..., :3, :] = torch.randint(0, 255, (*self._lanes, 3, self._size), generator=self._rng).to(torch.uint8)
        return frame

    def step(self) -> TensorDict:
        after = torch.cat([self._stack[..., 1:, :, :], self._frame().unsqueeze(-3)], -3)
        done = torch.rand((*self._lanes, 1), generator=self._rng) < 0.05

        def noise(*shape: int) -> torch.Tensor:
            return torch.randn((*self._lanes, *shape), generator=self._rng)

        step = TensorDict(
            {
                "pixels": self._stack,
                "flags": noise(3) > 0,
                "wide": noise(300).double(),
                "number": torch.full(self._lanes, self.count),
                "none": noise(0),
                "next": {
                    "pixels": after,
                    "halves": noise(200).to(torch.bfloat16),
                    "reward": noise(1),
                    "done": done,
                    "deep": {"er": noise(2, 3)},
                },
            },
            batch_size=self._lanes,
        )
        began, ended = self._begin(), done.reshape(*self._lanes, 1, 1, 1)
        self._stack, self.count = torch.where(ended, began, after), self.count + 1
        return step

    def steps(self, count: int) -> TensorDictBase:
        return torch.stack([self.step() for _ in range(count)])


def assert_equal(actual: Any, expected: Any) -> None:
    """The same data: structure, batch sizes, devices, dtypes, and values bit for bit."""
    if isinstance(expected, torch.Tensor):
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        mine, theirs = (part.clone(memory_format=torch.contiguous_format) for part in (actual, expected))
        assert bits(mine) == bits(theirs)
    elif isinstance(expected, (tuple, list)):
        assert type(actual) is type(expected)
        for mine, theirs in zip(actual, expected, strict=True):
            assert_equal(mine, theirs)
    elif isinstance(expected, dict):
        assert list(actual) == list(expected)
        assert_equal(list(actual.values()), list(expected.values()))
    else:
        assert type(actual) is type(expected)
        assert (actual.batch_size, actual.names) == (expected.batch_size, expected.names)
        assert actual.device == expected.device
        assert set(actual.keys()) == set(expected.keys())
        for key in expected.keys():  # noqa: SIM118  # iterating over a TensorDict goes along its batch
            assert_equal(actual.get(key), expected.get(key))


def storages(size: int, codec: Any = "auto", **options: Any) -> tuple[CompressedStorage, LazyTensorStorage]:
    return CompressedStorage(size, codec=codec, **options), LazyTensorStorage(size, **options)


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except IndexError:
        return IndexError


KEYS: list[Any] = [
    0,
    -1,
    3,
    99,
    np.int64(2),
    slice(None),
    slice(2, 7),
    slice(-3, None),
    slice(0, 9, 3),
    ...,
    [0, 2, -1],
    [],
    range(4),
    torch.tensor([3, 0, 0]),
    torch.tensor([[1, 2], [0, -1]]),
    torch.tensor([3, 99]),
    torch.tensor(2),
    np.array([1, 2]),
    np.array([[1], [2]]),
    "mask",
    "numpy mask",
    (slice(1, 3),),
    (torch.tensor([1, 0]),),
    (None, slice(0, 2)),
]
PAIRS_OF_KEYS: list[Any] = [
    (torch.tensor([1, 0, 2]), torch.tensor([0, 1, -1])),
    (slice(0, 2), 1),
    (slice(None), slice(0, 2)),
    (slice(None), torch.tensor([1, 0])),
    (1, 2),
    (torch.tensor([[1], [0]]), torch.tensor([[0, 1]])),
    (..., 0),
]


def resolved(key: Any, count: int) -> Any:
    mask = torch.arange(count) % 3 == 1
    return {"mask": mask, "numpy mask": mask.numpy()}.get(key, key) if isinstance(key, str) else key


def check(mine: CompressedStorage, theirs: LazyTensorStorage, keys: list[Any]) -> None:
    assert (len(mine), mine.shape, mine._is_full) == (len(theirs), theirs.shape, theirs._is_full)
    for key in keys:
        index = resolved(key, 0 if theirs.shape is None else theirs.shape[0])
        answers = [outcome(partial(storage.get, index)) for storage in (mine, theirs)]
        assert (answers[0] is IndexError) == (answers[1] is IndexError), key
        if answers[0] is not IndexError:
            assert_equal(*answers)


def same_samples(mine: ReplayBuffer, theirs: ReplayBuffer, size: int | None = None, seed: int = 0) -> Any:
    samples = []
    for buffer in (mine, theirs):
        torch.manual_seed(seed)
        samples.append(buffer.sample(size))
    assert_equal(*samples)
    return samples[0]


def mine_and_theirs(both: Any, call: Callable[[Any], Any]) -> Any:
    """What both answer, which is the same."""
    mine, theirs = (call(storage) for storage in both)
    assert_equal(mine, theirs)
    return mine
