"""Kernels of the frame store touch nothing outside what they are given: it all lies against pages nobody may touch."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from compressed_array._runtime.loading import native
from compressed_array._stores.frames import codebook_learning, codebooks, residuals
from compressed_array._stores.frames.checks import is_valid_group
from compressed_array._stores.frames.groups import ZSTD
from compressed_array._stores.frames.layouts import Layout, geometry
from compressed_array._stores.frames.records import encode_frame
from compressed_array._stores.frames.settings import AS_CHANGES, WriteSettings
from compressed_array._stores.frames.tables import FrameTables
from compressed_array._stores.protocol import exchange
from compressed_array.codecs import _changes
from compressed_array.testing import mutations
from core_helpers.guarded import Guarded
from core_helpers.streams import Screens

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="protects pages by Linux's mprotect"),
    pytest.mark.skipif(native("codecs._delta_kernels") is None, reason="there are no kernels here"),
]
SIZES = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 64, 127, 128, 129, 300, 1000, 4096)


def test_encoding_changes_reads_two_frames_and_no_more() -> None:
    kernels, rng = native("codecs._delta_kernels"), np.random.default_rng(0)
    left, right = Guarded(max(SIZES)), Guarded(max(SIZES))
    for size in SIZES:
        base = rng.integers(0, 256, size, np.uint8)
        for share in (0, 0.02, 0.3, 1):
            frame = np.where(rng.random(size) < share, rng.integers(0, 256, size), base).astype(np.uint8)
            expected = _changes.encode(frame, base)
            for a in left.holding(frame):
                for b in right.holding(base):
                    out = np.empty(2 * size + 128, np.uint8)
                    n = kernels.encode_at(a.ctypes.data, b.ctypes.data, size, out.ctypes.data, 2 * size + 64)
                    assert out[:n].tobytes() == expected


def test_encoding_changes_writes_little_beyond_its_limit() -> None:
    """A token and two numbers may go beyond it, and there is room for those; literals never do."""
    kernels, rng = native("codecs._delta_kernels"), np.random.default_rng(1)
    for size in SIZES:
        base, frame = (rng.integers(0, 256, size, np.uint8) for _ in range(2))
        frame[::5] = base[::5]
        full = len(_changes.encode(frame, base))
        for limit in sorted({0, 1, 2, full // 2, max(full - 1, 0), full, full + 1}):
            out = np.full(limit + 64, 0xA5, np.uint8)
            n = kernels.encode_at(frame.ctypes.data, base.ctypes.data, size, out.ctypes.data, limit)
            assert n == (full if full <= limit else -1)
            assert (out[limit + 16 :] == 0xA5).all()


def test_applying_changes_right_and_wrong() -> None:
    kernels, rng = native("codecs._delta_kernels"), np.random.default_rng(2)
    source, target = Guarded(4 * max(SIZES)), Guarded(max(SIZES) + 1)
    for size in SIZES:
        base = rng.integers(0, 256, size, np.uint8)
        frame = np.where(rng.random(size) < 0.2, rng.integers(0, 256, size), base).astype(np.uint8)
        right = _changes.encode(frame, base)
        for changes in (right, *mutations(right, 60, seed=size)):
            for at in source.holding(np.frombuffer(changes, np.uint8)):
                for wrong in (0, 1, -1):
                    for out in target.holding(np.resize(base, max(size + wrong, 0))):
                        fits = kernels.apply_checked(at.ctypes.data, at.size, out.ctypes.data, out.size)
                        if changes == right and not wrong:
                            assert fits
                            assert out.tobytes() == frame.tobytes()


def group_of(size: int, count: int) -> tuple[bytes, FrameTables]:
    """Records of frames one after the other, and what they were encoded with."""
    frames, settings = FrameTables((size,), 1, size), WriteSettings(Layout.unstacked(size), 0)
    screens, last, parts = Screens(size, (size,)), None, b""
    for _ in range(count):
        frame = screens.next()
        parts += encode_frame(frame, last, AS_CHANGES, settings, frames.references)
        last = frame
    return parts, frames


@pytest.mark.parametrize("size", [1, 5, 64, 300, 1000])
def test_groups_are_checked_within_their_bounds(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels, memory = native("_stores.frames.kernels.groups"), Guarded(32 * 1024)
    group, _ = group_of(size, 6)

    references = np.array([size])

    def both(data: np.ndarray[Any, Any], count: int) -> bool:
        answers = {
            bool(kernels.is_valid_group(at.ctypes.data, at.size, 0, count, size, references, references[:0]))
            for at in memory.holding(data)
        }
        with monkeypatch.context() as patch:
            patch.setattr("compressed_array._stores.frames.checks.native", lambda module: None)
            answers.add(is_valid_group(data, False, count, size, references))
        assert len(answers) == 1, "formula and kernel do not agree"
        return answers.pop()

    whole = np.frombuffer(group, np.uint8)
    assert both(whole, 6)
    assert not both(whole, 5)
    assert not both(whole, 7)
    assert not both(whole[:-1], 6)
    for bad in mutations(group, 150, seed=size):
        both(np.frombuffer(bad, np.uint8), 6)


@pytest.mark.parametrize("word", [2, 4, 8])
@pytest.mark.parametrize("share", [0, 0.1, 0.9])
def test_words_by_a_codebook_are_checked_within_their_bounds(word: int, share: float) -> None:
    rng, memory, frames = np.random.default_rng(word), Guarded(4096), Guarded(1024)
    kernels = native("_stores.frames.kernels.groups")
    decode = native("_stores.frames.kernels.codebook_functions").decode_words_at.ctypes
    small = np.where(rng.random(96) < share, 0, rng.integers(-90, 90, 96)).astype(f"<i{word}").view(np.uint8)
    book = codebook_learning.learn(small, word)
    body, lengths, books = codebooks.encode(small, book), np.array([0, 0]), np.array([0, book.ctypes.data])
    assert body is not None
    for at in frames.holding(small):
        assert codebooks.encode(at, book) == body
    head = residuals.code_bytes(residuals.prediction_code(residuals.BOOK, 1, 1))
    for coded in (body, body[:-1], b"", *mutations(body, 150, seed=word)):
        record = head + coded
        data = np.frombuffer(_changes.varint(len(record) << 2 | ZSTD) + record, np.uint8)
        answers = {
            bool(kernels.is_valid_group(at.ctypes.data, at.size, 0, 1, small.size, lengths, books))
            for at in memory.holding(data)
        }
        assert answers == {codebooks.is_valid(np.frombuffer(coded, np.uint8), book, small.size)}
        if answers == {True}:
            behind, one, other = (
                np.append(data[-len(coded) :], np.zeros(16, np.uint8)),
                *np.empty((2, small.size), np.uint8),
            )
            for out in frames.holding(one):
                decode(behind.ctypes.data, out.size, book.ctypes.data, out.ctypes.data)
                one[:] = out
            codebooks.decode(np.frombuffer(coded, np.uint8), book, other)
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kernel_there", [True, False])
def test_a_group_of_plain_frames_has_their_size(kernel_there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not kernel_there:
        monkeypatch.setattr("compressed_array._stores.frames.checks.native", lambda module: None)
    data = np.zeros(300, np.uint8)
    assert is_valid_group(data, True, 3, 100, np.array([100]))
    assert not is_valid_group(data, True, 3, 99, np.array([99]))
    assert not is_valid_group(data, True, 4, 100, np.array([100]))


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5, 8, 16])
@pytest.mark.parametrize("last", [False, True])
def test_comparing_and_taking_frames_reads_items_and_no_more(depth: int, last: bool) -> None:
    """A store that is written to from memory between the pages, at both of its ends, in C order and channel-last."""
    import compressed_array as ca
    from compressed_array.codecs.delta import Delta

    rng = np.random.default_rng(depth)
    for side in (1, 3, 5, 9):
        shape = (depth, side, side)
        nbytes = depth * side * side
        memory = Guarded(nbytes)
        array = ca.zeros((40, *shape), np.uint8, codec=Delta(2, stack_axis=0, frame_width=1))
        plain = np.zeros(array.shape, np.uint8)
        frames = rng.integers(0, 3, (40 + depth, side, side)).astype(np.uint8)
        for step in range(40):
            item = frames[step : step + depth]
            laid = np.moveaxis(item, 0, -1) if last else item
            for place in memory.holding(np.ascontiguousarray(laid).reshape(-1)):
                given = place.reshape(laid.shape)
                array[step : step + 1] = (np.moveaxis(given, -1, 0) if last else given)[None]
            plain[step] = item
        assert np.array_equal(array.read(), plain)
        if depth > 1:
            assert geometry(Layout.of(shape, 1, 0, 1), shape, 1, (side * side, side, 1)) is not None


@pytest.mark.parametrize("codec", ["delta", "auto"])
def test_taking_over_groups_reads_these_and_no_more(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames that are written anew, since what they were coded against is not there, lie at both ends, too."""
    import compressed_array as ca
    from compressed_array._stores.frames import adoption

    monkeypatch.setattr(adoption, "MOST_TAKEN", 0)
    rng, background = np.random.default_rng(0), Screens(0, (4, 24, 24), "noise").next()
    target, plain = ca.zeros((240, 24, 24), np.uint8, codec=codec), []
    for turn, frame in enumerate(background):
        items = np.where(rng.random((120, 24, 24)) < 0.1, 7, frame).astype(np.uint8)
        array = ca.compress(items, codec=codec)
        with array.store.epochs.writing:
            export, numbers = array.store.export(array.cells.numbers)
        assert export.references
        low, place = 60 * turn, Guarded(export.data.size)
        for data in place.holding(export.data):
            new = np.zeros(120, np.uint32)
            with target.store.epochs.writing, target.store.epochs.guard:
                assert target.store.adopt(replace(export, data=data), numbers, new)
                target.store.release(new[60:])
                exchange(target.store, (target.cells.numbers, slice(low, low + 60), new[:60]))
        plain.append(items[:60])
    assert np.array_equal(target.read(), np.concatenate(plain))
