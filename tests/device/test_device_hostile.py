"""States and files of device arrays that were changed, by accident or on purpose: right values or an error by name."""

from __future__ import annotations

import copy
import pickle
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import compressed_array as ca
from compressed_array.torch import DeviceArray
from compressed_array.torch._state import checksum, with_checksum
from core_helpers.streams import Stacked
from device_helpers.device_streams import Twins, sweep

pytestmark = pytest.mark.long

# How many steps: few, after which it is not known yet how items are stacked, or many.
KINDS = [("delta", 40), ("delta", 1), ("rle", 40), ("gzip", 40), ("none", 40)]
NAMED = (ca.CorruptPayloadError, ca.CorruptFileError, ca.UnknownCodecError, ca.CodecLevelError, ca.HeapFullError)
NASTY: list[Any] = [None, True, -1, 0, 1, 3, 2**31, 2**63, 10**30, 1.5, "x", "float64", "meta", [], {}, b"x"]


def made(codec: str, steps: int) -> tuple[DeviceArray, torch.Tensor]:
    twins = Twins(codec, 12, Stacked(2, 4, (1, 12, 24)))
    twins.add(steps)
    return twins.arrays[0], twins.plains[0].clone()


def resealed(state: dict[str, Any]) -> dict[str, Any]:
    """As somebody would who knows how checksums are made."""
    return with_checksum({name: part for name, part in state.items() if name != "crc32"})


def leaves(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[key], (*at, key))


def part_of(state: Any, at: tuple[Any, ...]) -> Any:
    for key in at:
        state = state[key]
    return state


def changed(state: dict[str, Any], at: tuple[Any, ...], part: Any) -> dict[str, Any]:
    new = copy.deepcopy(state)
    part_of(new, at[:-1])[at[-1]] = part
    return new


def other_tensors(part: torch.Tensor, rng: np.random.Generator) -> Iterator[Any]:
    """What could be there instead of a tensor."""
    yield part.to(torch.float32)
    yield part.to(torch.int16)
    yield part[:-1]
    yield part[None]
    yield torch.cat([part, part])
    yield torch.zeros((), dtype=part.dtype).expand(part.shape)
    yield torch.zeros((), dtype=part.dtype).expand(2**40, *part.shape[1:])
    yield torch.empty(part.shape, dtype=part.dtype, device="meta")
    yield part.to_sparse() if part.numel() else None
    for _ in range(8):
        if part.numel():
            new = part.clone()
            flat = new.view(-1).view(torch.uint8)
            if rng.integers(2) and part.dtype in (torch.int64, torch.int32, torch.int16):
                lies = [-1, 1, 5, len(part), 2**15 - 1] + [2**40, 2**41, -(2**63), 2**63 - 1] * (
                    part.dtype == torch.int64
                )
                new.view(-1)[int(rng.integers(new.numel()))] = int(rng.choice(lies))
            else:
                flat[int(rng.integers(flat.numel()))] ^= 1 << int(rng.integers(8))
            yield new


def is_same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        is_plain = one.layout == torch.strided and not one.is_meta and one.is_contiguous()
        return is_plain and one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)
    return not one and not other if isinstance(one, dict | list) else bool(one == other)


def use(array: DeviceArray) -> None:
    """All that an array can be used for, which must not write where it has nothing to write."""
    try:
        array[:]
        for step in range(3):
            array[step] = torch.full(array.shape[1:], step + 1, dtype=torch.uint8)
            assert (array[step] == step + 1).all()
        array[:]
        if array.store is not None:
            sweep(array.store)
            array.state_dict()
        assert (array[2] == 3).all()
    except (ca.CorruptPayloadError, ca.HeapFullError):
        pass


@pytest.mark.parametrize(("codec", "steps"), KINDS)
def test_every_changed_part_is_noticed(codec: str, steps: int) -> None:
    """By its checksum, whatever it is; and what the array held it still holds."""
    array, plain = made(codec, steps)
    state, rng = array.state_dict(), np.random.default_rng(0)
    for at in list(leaves(state))[1:]:
        part = part_of(state, at)
        others = other_tensors(part, rng) if isinstance(part, torch.Tensor) else (n for n in NASTY if n is not part)
        for other in others:
            if is_same(other, part):
                continue
            with pytest.raises(ca.CorruptPayloadError):
                array.load_state_dict(changed(state, at, other))
    assert torch.equal(array[:], plain)
    array.load_state_dict(state)
    assert torch.equal(array[:], plain)


@pytest.mark.parametrize(("codec", "steps"), KINDS)
@pytest.mark.parametrize("rounds", [1, pytest.param(40, marks=pytest.mark.slow)])
def test_lies_with_right_checksums_do_no_harm(codec: str, steps: int, rounds: int) -> None:
    array, _ = made(codec, steps)
    state, rng = array.state_dict(), np.random.default_rng(0)
    loaded = refused = 0
    parts = [at for at in leaves(state) if at and at[0] != "about"]  # which only a file is made from
    for at in rounds * parts:
        part = part_of(state, at)
        for other in other_tensors(part, rng) if isinstance(part, torch.Tensor) else NASTY:
            try:
                lie = resealed(changed(state, at, other))
            except (ca.CorruptPayloadError, RuntimeError, NotImplementedError):
                continue  # there is no checksum of that
            target = DeviceArray(array.shape, item_ndim=3, codec=codec)
            try:
                target.load_state_dict(lie)
                loaded += 1
            except (ca.CorruptPayloadError, ValueError):
                refused += 1
                continue
            use(target)
    assert loaded
    assert refused > 3


@pytest.mark.parametrize(("codec", "steps"), KINDS)
@pytest.mark.parametrize("some", [60, pytest.param(3000, marks=pytest.mark.slow)])
def test_every_changed_bit_of_a_file_is_noticed(codec: str, steps: int, some: int, tmp_path: Path) -> None:
    array, plain = made(codec, steps)
    array.save(tmp_path / "a.pt")
    data, rng = (tmp_path / "a.pt").read_bytes(), np.random.default_rng(0)
    loaded = 0
    for _ in range(some):
        flipped = bytearray(data)
        flipped[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        (tmp_path / "b.pt").write_bytes(flipped)
        try:
            back = DeviceArray.load(tmp_path / "b.pt")
        except ca.CorruptFileError:
            continue
        loaded += 1
        assert torch.equal(back[:], plain), "a bit that changes nothing, as of padding"
    assert loaded < some


@pytest.mark.parametrize(("codec", "steps"), KINDS)
def test_every_value_of_a_file_may_be_a_lie(codec: str, steps: int, tmp_path: Path) -> None:
    """What a file says of itself, too: its shape, dtype, codec and device."""
    array, _ = made(codec, steps)
    state = array.state_dict()
    for at in list(leaves(state["about"], ("about",)))[1:]:
        for lie in NASTY:
            try:
                torch.save(resealed(changed(state, at, lie)), tmp_path / "a.pt")
            except ca.CorruptPayloadError:
                continue
            try:
                back = DeviceArray.load(tmp_path / "a.pt")
            except NAMED:
                continue
            assert back.device.type == "cpu"
            assert back.nbytes < 10 * array.nbytes
            if back.shape == array.shape and back.dtype == array.dtype:
                use(back)


def test_truncated_and_other_files(tmp_path: Path) -> None:
    array, _ = made("delta", 40)
    array.save(tmp_path / "a.pt")
    data = (tmp_path / "a.pt").read_bytes()
    for length in (0, 1, 100, len(data) // 2, len(data) - 1):
        (tmp_path / "b.pt").write_bytes(data[:length])
        with pytest.raises(ca.CorruptFileError):
            DeviceArray.load(tmp_path / "b.pt")
    for other in ({}, [], {"cells": 1}, torch.zeros(3)):
        torch.save(other, tmp_path / "b.pt")
        with pytest.raises(ca.CorruptFileError):
            DeviceArray.load(tmp_path / "b.pt")
    with pytest.raises(FileNotFoundError):
        DeviceArray.load(tmp_path / "missing.pt")


def test_a_file_is_no_larger_than_it_is(tmp_path: Path) -> None:
    """Torch unpacks what is packed in its files, whatever comes of that; it packs nothing."""
    state = made("none", 3)[0].state_dict()
    state["dense"] = torch.zeros(10_000_000, dtype=torch.uint8)
    torch.save(resealed(state), tmp_path / "a.pt")
    with (
        zipfile.ZipFile(tmp_path / "a.pt") as file,
        zipfile.ZipFile(tmp_path / "b.pt", "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for entry in file.infolist():
            new.writestr(entry.filename, file.read(entry))
    assert (tmp_path / "b.pt").stat().st_size < 20_000
    with pytest.raises(ca.CorruptFileError, match="larger than the file"):
        DeviceArray.load(tmp_path / "b.pt")


def test_a_codec_that_runs_what_it_reads_is_refused(tmp_path: Path) -> None:
    state = made("gzip", 40)[0].state_dict()
    for library in ("numcodecs", "compressed-array"):
        state["about"]["codec"] = {"library": library, "config": {"id": "pickle", "protocol": 5}}
        torch.save(resealed(state), tmp_path / "a.pt")
        with pytest.raises(ca.CorruptFileError, match="refused"):
            DeviceArray.load(tmp_path / "a.pt")


def test_changed_pickles_are_noticed() -> None:
    array, plain = made("delta", 40)
    data, rng, noticed = pickle.dumps(array), np.random.default_rng(0), 0
    words = array.store.frames.table.words.numpy().tobytes()  # type: ignore[union-attr]
    at = data.index(words)
    for _ in range(40):
        flipped = bytearray(data)
        flipped[at + int(rng.integers(len(words)))] ^= 1 << int(rng.integers(8))
        with pytest.raises(ca.CorruptPayloadError):
            pickle.loads(bytes(flipped))
        noticed += 1
    assert noticed == 40
    assert torch.equal(pickle.loads(data)[:], plain)


@pytest.mark.parametrize("codec", ["delta", "rle", "gzip"])
def test_states_from_before_are_taken(codec: str) -> None:
    """They had no checksum, and what lanes remembered."""
    array, plain = made(codec, 40)
    state = array.state_dict()
    names = ("payloads",) if codec == "gzip" else ("rows", "puts")
    coder = dict(zip(names, state["store"].pop("heaps"), strict=True)) | {"keys": torch.zeros(2)}
    store = state["store"] | {"coder": coder, "streams": {"numbers": torch.zeros(2, 3)}}
    target = DeviceArray(array.shape, item_ndim=3, codec=codec)
    target.load_state_dict({"cells": state["cells"], "dense": None, "store": store})
    assert torch.equal(target[:], plain)


def test_states_of_another_dtype_are_refused() -> None:
    floats, ints = (DeviceArray((4, 2, 50), dtype, item_ndim=1) for dtype in (torch.float32, torch.int32))
    with pytest.raises(ValueError, match="another dtype"):
        floats.load_state_dict(ints.state_dict())


def test_checksums_tell_what_is_where() -> None:
    one, two = torch.arange(6), torch.arange(6).reshape(2, 3)
    states: list[Any] = [
        one,
        two,
        one.to(torch.int32),
        [one, two],
        [two, one],
        [[one], two],
        {"a": one},
        {"b": one},
        1,
        True,
        "1",
        None,
        [],
        [None],
        {},
    ]
    assert len({checksum(state) for state in states}) == len(states)


@pytest.mark.parametrize(
    "name", ["Zstd", "Blosc", "BZ2", "LZ4", "Zlib", "GZip", "LZMA", "Shuffle", "Delta", "PackBits"]
)
def test_codecs_of_numcodecs_work(name: str, tmp_path: Path) -> None:
    """On the host, a batch at a time, as the core's do; saved by what they are."""
    numcodecs = pytest.importorskip("numcodecs")
    codec = getattr(numcodecs, name)(*(["<f4"] if name == "Delta" else []))
    dtype = torch.bool if name == "PackBits" else torch.float32
    rng = np.random.default_rng(0)
    plain = torch.from_numpy(rng.integers(0, 2, (30, 2, 8, 12))).to(dtype)
    array = DeviceArray(plain.shape, dtype, item_ndim=2, codec=codec)
    for step, items in enumerate(plain):
        array[step] = items
    assert torch.equal(array[:], plain)
    assert array.codec == codec
    array.save(tmp_path / "a.pt")
    twin = DeviceArray(plain.shape, dtype, item_ndim=2, codec=codec)
    twin.load_state_dict(array.state_dict())
    for back in (DeviceArray.load(tmp_path / "a.pt"), pickle.loads(pickle.dumps(array)), twin):
        assert torch.equal(back[:], plain)
        assert back.codec == codec
        back[3] = plain[5]
        assert torch.equal(back[3], plain[5])


def test_codecs_that_lose_something_are_refused() -> None:
    numcodecs = pytest.importorskip("numcodecs")
    array = DeviceArray((80, 8, 8), torch.float32, codec=numcodecs.Quantize(1, "<f4", "<f2"))
    items = torch.from_numpy(np.random.default_rng(0).normal(size=(80, 8, 8)).astype(np.float32))
    with pytest.raises(ca.LossyWriteError):
        array[...] = items
    assert not array[:].any()
