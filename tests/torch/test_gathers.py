"""What a native call takes out of tensors is what `index_select` takes, one after the other."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import compressed_array as ca
import compressed_array_torch as cat
from compressed_array.sampling import Gather
from compressed_array_torch import Field
from compressed_array_torch._row_gather import SHORT, RowGather
from torch_helpers.histories import SHAPES, History, assert_same, dtype_of

BUFFERS: dict[str, Any] = {
    "replay": cat.ReplayBuffer,
    "n-step": lambda *arguments, **options: cat.ReplayBuffer(*arguments, n_step=3, **options),
    "prioritized": cat.PrioritizedReplayBuffer,
    "sequences": lambda *arguments, **options: cat.SequenceReplayBuffer(*arguments, length=4, **options),
}
DTYPES = [torch.bool, torch.int8, torch.bfloat16, torch.float32, torch.int64, torch.complex64, torch.complex128]


@contextmanager
def one_by_one() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Gather, "into", lambda *_: False)
        yield


@pytest.mark.parametrize("codec", [None, "auto"])
@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("which", BUFFERS)
def test_batches_are_the_same(which: str, kind: str, codec: Any) -> None:
    fields = {"logits": Field((3,), torch.float16), "large": Field((200,))}
    options = {"obs_dtype": dtype_of(kind), "action_dtype": torch.int64, "fields": fields, "codec": codec}
    shared = torch.Generator()
    buffer = BUFFERS[which](20, 3, SHAPES[kind][0], (), generator=shared, **options)
    history = History(kind, 3, ends=0.02)
    for turn in range(50):
        values = torch.arange(3.0)[:, None] + turn
        history.add_to(buffer, logits=values.expand(3, 3).half(), large=values.expand(3, 200))
        if turn < 6:  # until there are windows to be drawn
            continue
        for count in (1, 7, 7, 100):  # more than are held
            shared.manual_seed(turn)
            batch = buffer.get(count)
            shared.manual_seed(turn)
            with one_by_one():
                other = buffer.get(count)
            assert vars(batch).keys() == vars(other).keys()
            for name, part in vars(batch).items():
                if part is not None:
                    assert_same(part, vars(other)[name])


@given(
    st.lists(st.tuples(st.sampled_from(DTYPES), st.integers(1, 9), st.booleans()), max_size=5),
    st.sampled_from([(0,), (1,), (30,), (5, 4), (2, 3, 2), ()]),
    st.integers(0, 99),
)
def test_any_tensors(kinds: list[tuple[torch.dtype, int, bool]], shape: tuple[int, ...], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    sources = []
    for dtype, width, is_pointed in kinds:
        words = torch.randint(256, (60, width * dtype.itemsize), generator=generator, dtype=torch.uint8)
        rows = (words % 2 if dtype is torch.bool else words).view(dtype)
        index = torch.randint(60, (40,), generator=generator).to(torch.int32 if width % 2 else torch.int64)
        sources.append((rows, index if is_pointed else None))
    positions = torch.randint(40, shape, generator=generator)
    taken = RowGather(40, sources).read(positions)
    if not ca.has_numba() or not kinds:
        assert taken is None
        return
    assert taken is not None
    for (rows, index), part in zip(sources, taken, strict=True):
        which = positions.reshape(-1) if index is None else index.index_select(0, positions.reshape(-1))
        expected = rows.index_select(0, which).view(*shape, *rows.shape[1:])
        assert (part.dtype, part.shape, part.stride()) == (expected.dtype, expected.shape, expected.stride())
        assert torch.equal(as_bytes(part), as_bytes(expected))
        assert part.untyped_storage().nbytes() == part.nbytes


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.uint8)


def test_what_is_left_to_torch() -> None:
    rows, positions = torch.arange(80.0).view(40, 2), torch.arange(5)
    assert RowGather(40, [(rows.t().contiguous().t(), None)]).read(positions) is None
    assert RowGather(40, [(rows.to("meta"), None)]).read(positions) is None
    assert RowGather(40, [(torch.zeros(40, SHORT + 1, dtype=torch.uint8), None)]).read(positions) is None
    assert RowGather(40, [(rows[:, :0], None)]).read(positions) is None
    gather = RowGather(40, [(rows, None)])
    assert gather.read(positions.int()) is None
    assert gather.read(torch.arange(10)[::2]) is None
    assert gather.read(positions.to("meta")) is None
    assert gather.read(torch.zeros(41, dtype=torch.int64)) is None
    for wrong in (-1, 40):
        assert gather.read(torch.tensor([0, wrong])) is None


@pytest.mark.skipif(not ca.has_numba(), reason="there are no kernels here")
def test_tensors_that_move() -> None:
    """Torch moves the memory of a tensor that it shares, and a copy has memory of its own."""
    rows, positions = torch.arange(80.0).view(40, 2), torch.arange(5)
    gather = RowGather(40, [(rows, None)])
    assert gather.read(positions) is not None
    rows.share_memory_()
    rows += 1
    copied = copy.deepcopy(gather)
    saved = io.BytesIO()
    torch.save(gather, saved)
    saved.seek(0)
    loaded = torch.load(saved, weights_only=False)
    rows += 1
    for each, expected in ((gather, rows), (copied, rows - 1), (loaded, rows - 1)):
        taken = each.read(positions)
        assert taken is not None
        assert torch.equal(taken[0], expected[:5])
