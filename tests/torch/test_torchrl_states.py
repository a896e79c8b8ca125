"""What a `CompressedStorage` refuses, what it saves, and what other processes may do with it."""

from __future__ import annotations

import copy
import importlib
import multiprocessing
import os
import pickle
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("torchrl")

from tensordict import NonTensorData, TensorDict, lazy_stack
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer

import compressed_array as ca
from compressed_array_torch import BufferStateError, StepError
from compressed_array_torch.torchrl import CompressedStorage
from torch_helpers.torchrl_streams import CODECS, KEYS, Stream, assert_equal, check, same_samples, storages

# What does not fit.


def wrong(change: Callable[[TensorDict], Any]) -> Callable[[TensorDict], Any]:
    def changed(steps: TensorDict) -> Any:
        steps = steps.clone()
        other = change(steps)
        return steps if other is None else other

    return changed


WRONG: dict[str, tuple[Callable[[TensorDict], Any], str]] = {
    "missing": (wrong(lambda s: s.exclude("flags")), r"lacks \['flags'\]"),
    "nested missing": (wrong(lambda s: s.exclude(("next", "deep"))), r"lacks \['next.deep.er'\]"),
    "more": (wrong(lambda s: s.set("hidden", torch.zeros(len(s)))), r"has \['hidden'\]"),
    "shape": (wrong(lambda s: s.set("wide", torch.zeros(len(s), 301))), "wide is of shape"),
    "scalar": (wrong(lambda s: s.set("number", torch.zeros(len(s), 1, dtype=torch.int64))), "number is of shape"),
    "dtype": (wrong(lambda s: s.set("pixels", s["pixels"].float() + 0.5)), "does not fit"),
    "small dtype": (wrong(lambda s: s.set("flags", s["flags"].int() + 2)), "does not fit"),
    "too few": (wrong(lambda s: s[:-1]), "is of shape"),
    "one for all": (wrong(lambda s: s[:1]), "is of shape"),
    "text": (wrong(lambda s: s.set("flags", NonTensorData("no", batch_size=s.batch_size))), "of type NonTensorData"),
    "tensor": (lambda s: s["pixels"], r"has \['data'\]"),
    "number": (lambda s: 3, "type int"),
    "unlike": (
        lambda s: lazy_stack([s[0].select("wide"), s[0].select("wide").set("wide", torch.zeros(3))]),
        "not alike",
    ),
    "sparse": (lambda s: {"pixels": s["wide"].to_sparse()}, "sparse"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_does_not_fit_changes_nothing(what: str) -> None:
    stream, both = Stream(), storages(12)
    for storage, steps in zip(both, [stream.steps(9)] * 2, strict=True):
        storage.set(range(9), steps)
    change, message = WRONG[what]
    with pytest.raises(StepError, match=message):
        both[0].set(torch.arange(7, 12), change(stream.steps(5)))
    check(*both, [slice(None)])
    assert both[0]._last_cursor_index == 8
    for storage, steps in zip(both, [stream.steps(5)] * 2, strict=True):
        storage.set(torch.arange(9, 14) % 12, steps)
    check(*both, KEYS)


@pytest.mark.parametrize("data", ["no", 5, {}, (), TensorDict({}, [3]), NonTensorData("text", batch_size=[3])])
def test_a_first_step_that_cannot_be_stored_leaves_the_storage_new(data: Any) -> None:
    storage = CompressedStorage(5)
    with pytest.raises(StepError):
        storage.set(0, data)
    assert not storage.initialized
    with pytest.raises(RuntimeError, match="non-initialized"):
        storage[0]
    storage.set(0, Stream().step())
    assert len(storage) == 1


def test_names_and_axes_have_to_be_clear() -> None:
    with pytest.raises(StepError, match=r"two leaves are called 'a\.b'"):
        CompressedStorage(5).set(0, TensorDict({"a.b": torch.zeros(3), "a": {"b": torch.zeros(3)}}, []))
    with pytest.raises(StepError, match="ndim=2"):
        CompressedStorage(5, ndim=2).set(0, TensorDict({"a": torch.zeros(3)}, []))
    with pytest.raises(StepError, match="ndim=3"):
        CompressedStorage(5, ndim=3).set(0, {"a": torch.zeros(3, 2), "b": torch.zeros(3, 4)})
    with pytest.raises(IndexError):
        CompressedStorage(5).set(5, Stream().step())
    with pytest.raises(IndexError):
        CompressedStorage(5).set(range(2, 7), Stream().steps(5))


class Fussy(ca.Codec):
    """A codec that does not take everything."""

    codec_id = "fussy"

    def encode(self, buf: Any) -> bytes:
        if 255 in bytes(buf):
            raise MemoryError("too bright")
        return zlib.compress(bytes(buf))

    def decode(self, buf: Any, out: Any = None) -> Any:
        plain = np.frombuffer(zlib.decompress(bytes(buf)), np.uint8)
        if out is None:
            return plain
        np.frombuffer(out, np.uint8)[:] = plain
        return out


@pytest.mark.parametrize("rows", [3, range(2, 6), [8, 9, 0, 1]])
def test_a_write_that_fails_halfway_is_taken_back(rows: Any) -> None:
    def camera(name: int) -> torch.Tensor:
        return torch.randint(0, 200, (10, 20, 20), generator=torch.Generator().manual_seed(name)).to(torch.uint8)

    data = TensorDict(
        {"a": camera(0), "b": camera(1), "c": torch.arange(10), "next": {"a": camera(2), "b": camera(3)}}, [10]
    )
    storage = CompressedStorage(10, codec={"a": "zstd-3", "b": Fussy()})
    storage.set(range(10), data)
    before = storage[:].clone()
    bright = data[rows].clone() + 1
    (bright["next", "b"] if isinstance(rows, int) else bright["next", "b"][-1]).fill_(255)
    with pytest.raises(MemoryError, match="too bright"):
        storage.set(rows, bright)
    assert_equal(storage[:].clone(), before)
    bright["next", "b"].fill_(9)
    storage.set(rows, bright)
    assert_equal(storage[rows], bright.to("cpu"))


# Saving.


def filled(**options: Any) -> tuple[TensorDictReplayBuffer, TensorDictReplayBuffer]:
    stream = Stream()
    mine, theirs = (TensorDictReplayBuffer(storage=storage, batch_size=7) for storage in storages(40, **options))
    for count in (30, 25):
        steps = stream.steps(count)
        for buffer in (mine, theirs):
            buffer.extend(steps.clone())
    return mine, theirs


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("way", ["dumps", "state_dict", "torch.save", "pickle", "deepcopy"])
def test_saved_buffers_go_on(way: str, codec: Any, tmp_path: Path) -> None:
    mine, theirs = filled(codec=codec)
    loaded = TensorDictReplayBuffer(storage=CompressedStorage(40, codec=codec), batch_size=7)
    if way == "dumps":
        mine.dumps(tmp_path)
        loaded.loads(tmp_path)
    elif way == "state_dict":
        loaded.load_state_dict(mine.state_dict())
    elif way == "torch.save":
        torch.save(mine.storage.state_dict(), tmp_path / "state")
        loaded.load_state_dict(mine.state_dict())
        loaded.storage.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    else:
        loaded = pickle.loads(pickle.dumps(mine)) if way == "pickle" else copy.deepcopy(mine)
    more = Stream(seed=1).steps(9)
    mine.extend(more.clone())  # what is loaded is of its own
    check(loaded.storage, theirs.storage, KEYS)
    for buffer in (loaded, theirs):
        buffer.extend(more.clone())
    same_samples(loaded, theirs)
    check(loaded.storage, theirs.storage, KEYS)
    assert loaded.storage.memory_usage().keys.keys() == mine.storage.memory_usage().keys.keys()


def test_checkpoints_are_small_and_replace_each_other(tmp_path: Path) -> None:
    storage, steps = CompressedStorage(300), Stream(size=42).steps(300).select("pixels", "number", ("next", "pixels"))
    buffer = TensorDictReplayBuffer(storage=storage)
    for _ in range(2):
        buffer.extend(steps.clone())
        buffer.dumps(tmp_path)
    files = [path for path in (tmp_path / "storage").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 0.1 * steps.bytes()


def test_a_new_storage_is_saved_as_well(tmp_path: Path) -> None:
    CompressedStorage(10).dumps(tmp_path)
    storage = CompressedStorage(10)
    storage.set(range(4), Stream().steps(4))
    storage.loads(tmp_path)
    assert len(storage) == 0
    storage.set(range(4), Stream().steps(4))
    assert len(pickle.loads(pickle.dumps(CompressedStorage(10)))) == 0


def test_states_that_do_not_fit_are_refused_and_change_nothing(tmp_path: Path) -> None:
    mine, theirs = filled()
    state = mine.storage.state_dict()
    columns = state["columns"]
    pair = columns["compressed"]["pixels, next.pixels"].clone()
    pair[len(pair) // 2] ^= 1

    def saved(*args: Any, steps: Any = None, **options: Any) -> Any:
        storage = CompressedStorage(*args, **options)
        storage.set(range(3), Stream().steps(3) if steps is None else steps)
        return storage.state_dict()

    others: list[Any] = [
        {},
        state | {"class": "ReplayBuffer"},
        state | {"_len": 41},
        state | {"_len": "many"},
        state | {"_len": -1},
        {key: part for key, part in state.items() if key != "columns"},
        state | {"columns": {}},
        state | {"columns": columns | {"dense": {"pixels": pair}}},
        state | {"columns": columns | {"compressed": columns["compressed"] | {"pixels, next.pixels": pair}}},
        state | {"columns": columns | {"small": {}}},
        state | {"initialized": False},
        saved(41),
        saved(40, codec=None),
        saved(40, steps=Stream(size=13).steps(3)),
        saved(40, steps=Stream().steps(3).exclude("flags")),
        LazyTensorStorage(40).state_dict(),
    ]
    for other in others:
        with pytest.raises(BufferStateError):
            mine.storage.load_state_dict(other)
        check(mine.storage, theirs.storage, [slice(None)])
    new = CompressedStorage(40)
    for other in [*others[:-5], saved(41), state | {"shape": [20, 2]}, state | {"kinds": {}}]:
        with pytest.raises(BufferStateError):
            new.load_state_dict(other)
        assert not new.initialized
    with pytest.raises(BufferStateError, match="no compressed storage was saved there"):
        new.loads(tmp_path)
    (tmp_path / "compressed_storage.pt").write_bytes(b"PK")
    with pytest.raises(BufferStateError, match="damaged"):
        new.loads(tmp_path)


def test_hooks_are_refused() -> None:
    storage = CompressedStorage(5)
    for register in (storage.register_save_hook, storage.register_load_hook):
        with pytest.raises(ca.UnsupportedOperationError, match="saved as it is"):
            register(lambda data, **_: data)


# Other processes.


def _in_child(storage: CompressedStorage, pipe: Any) -> None:
    found = [float(storage[[0, 1]]["wide"].sum()), len(storage)]
    try:
        storage.set(0, Stream().step())
    except ca.UnsupportedOperationError as error:
        found.append(str(error))
    pipe.send(found)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # that is what is tested
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_may_read_but_not_write() -> None:
    storage = CompressedStorage(20)
    storage.set(range(8), Stream().steps(8))
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=_in_child, args=(storage, there))
    child.start()
    total, length, message = here.recv()
    child.join()
    assert (total, length) == (float(storage[[0, 1]]["wide"].sum()), 8)
    assert f"process {os.getpid()}" in message


def test_a_storage_is_not_sent_to_a_process_that_starts() -> None:
    storage = CompressedStorage(20)
    storage.set(range(8), Stream().steps(8))
    child = multiprocessing.get_context("spawn").Process(target=_in_child, args=(storage, None))
    with pytest.raises(ca.UnsupportedOperationError, match="cannot be shared"):
        child.start()


def test_without_torchrl_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("compressed_array_torch.torchrl")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torchrl.data.replay_buffers.checkpointers", None)
    with pytest.raises(ImportError, match=r"compressed-array-torch\[torchrl\]"):
        importlib.import_module("compressed_array_torch.torchrl")
