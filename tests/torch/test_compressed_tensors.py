"""`CompressedTensor` beside the plain tensor: the same operations, the same answers."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torchrl")

import compressed_array as ca
from compressed_array_torch import StepError
from compressed_array_torch.torchrl.decoding import CompressedTensor, positions_of
from torch_helpers.torchrl_streams import KEYS, PAIRS_OF_KEYS, Stream, assert_equal, outcome, storages

UNARY: dict[str, Callable[[torch.Tensor], Any]] = {
    "sum": lambda x: x.sum(),
    "add": lambda x: x + 1,
    "stack": lambda x: torch.stack([x, x]),
    "cat": lambda x: torch.cat([torch.zeros_like(x), x]),
    "float": lambda x: x.float(),
    "view": lambda x: x.view(-1),
    "transposed": lambda x: x.T if x.ndim == 2 else x.transpose(0, 1),
    "unbound": lambda x: list(x),
    "item": lambda x: x[2, 0, 0, 0].item(),
    "numpy": lambda x: torch.from_numpy(np.asarray(x).copy()),
    "list": lambda x: torch.tensor(x.tolist()),
    "pickled": lambda x: pickle.loads(pickle.dumps(x)),
    "copied": lambda x: copy.deepcopy(x),
    "detached": lambda x: x.detach()[1:3].clone(),
    "data": lambda x: x.data.clone(),
    "inside": lambda x: x[:, 2, 3:5],
    "last": lambda x: x[..., -1],
    "new axis": lambda x: x[None],
    "mask": lambda x: x[x > 100],
    "slices of slices": lambda x: x[1:][::2][1:3].clone(),
    "text": lambda x: torch.tensor([len(f"{x[:2].clone()}")]),
    "dlpack": lambda x: torch.from_dlpack(x.__dlpack__()),
    "flat": lambda x: x[1:].flatten(0, 1),
    "equal": lambda x: torch.tensor([torch.equal(x, x), torch.equal(x, x.clone())]),
}
CHANGES: dict[str, Callable[[torch.Tensor], Any]] = {
    "zero": lambda x: x.zero_(),
    "add": lambda x: x.add_(1),
    "copy": lambda x: x.copy_(torch.ones(x.shape[1:])),
    "items": lambda x: x.__setitem__(torch.tensor([3, 1]), 7),
    "mask": lambda x: x.__setitem__(torch.arange(len(x)) == 2, torch.arange(12).byte()),
    "inside": lambda x: x.__setitem__((slice(1, 3), 2, ..., 5), 9),
    "part": lambda x: x[2:5].fill_(4),
    "out": lambda x: torch.add(x.clone(), 1, out=x),
    "several": lambda x: torch._foreach_add_([x, x[:0].clone()], 1),
    "one": lambda x: x.__setitem__(-1, 8),
}


def tensors() -> tuple[torch.Tensor, torch.Tensor]:
    mine, theirs = storages(12)
    for storage in (mine, theirs):
        storage.set(range(12), Stream().steps(12)["pixels"])
    assert isinstance(mine[:], CompressedTensor)
    return mine[:], theirs[:]


@pytest.mark.parametrize("name", UNARY)
def test_operations_on_compressed_tensors(name: str) -> None:
    mine, theirs = map(UNARY[name], tensors())
    assert not isinstance(mine, CompressedTensor)
    assert_equal(
        torch.as_tensor(mine) if isinstance(mine, int) else mine,
        torch.as_tensor(theirs) if isinstance(theirs, int) else theirs,
    )


@pytest.mark.parametrize("name", CHANGES)
def test_changes_in_place_are_stored(name: str) -> None:
    both = tensors()
    for tensor in both:
        CHANGES[name](tensor)
    assert_equal(*both)


def test_what_has_no_memory_says_so() -> None:
    tensor = tensors()[0]
    for reach in (tensor.data_ptr, tensor.share_memory_, tensor.untyped_storage):
        with pytest.raises(ca.UnsupportedOperationError, match="clone"):
            reach()
    with pytest.raises(StepError, match="does not fit"):
        tensor[0] = 300
    with pytest.raises(IndexError):
        tensor[12]


@given(
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(1, 3),
    st.sampled_from([(), (1,), (3,), (2, 3)]),
    st.sampled_from([key for key in KEYS if not isinstance(key, str)] + PAIRS_OF_KEYS),
)
def test_positions(start: int, count: int, step: int, lanes: tuple[int, ...], key: Any) -> None:
    rows = range(start, start + count * step, step)
    size = int(np.prod(lanes))
    grid = torch.tensor([[row * size + lane for lane in range(size)] for row in rows], dtype=torch.int64)
    plain = outcome(lambda: grid.reshape(count, *lanes)[key if not isinstance(key, range) else list(key)])
    found = outcome(lambda: positions_of(key, rows, lanes))
    assert found is plain if plain is IndexError else torch.equal(found, plain)
