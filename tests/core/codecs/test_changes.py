"""Changes between two frames: what turns one into the other, the same bytes by formula and kernel, bounds kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compressed_array import CorruptPayloadError
from compressed_array._runtime.loading import native
from compressed_array.codecs import _changes, delta
from compressed_array.testing import mutations

Bytes = np.ndarray


def as_bytes(data: bytes) -> Bytes:
    return np.frombuffer(data, np.uint8)


@st.composite
def two_frames(draw: st.DrawFn) -> tuple[Bytes, Bytes]:
    """A frame, and one that differs from it in runs with gaps of all lengths."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    base = rng.integers(0, 256, draw(st.integers(0, 700)), np.uint8)
    frame = base.copy()
    at = 0
    for skip, run in draw(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40)), max_size=30)):
        at += skip
        frame[at : at + run] ^= np.uint8(1 + rng.integers(0, 255))
        at += run
    if draw(st.integers(0, 9)) == 0:
        frame = rng.integers(0, 256, base.size, np.uint8)
    return frame, base


@given(two_frames())
def test_changes_turn_one_frame_into_the_other(frames: tuple[Bytes, Bytes]) -> None:
    frame, base = frames
    changes = _changes.encode(frame, base)
    assert delta.encode_changes(frame, base) == changes
    for apply in (_changes.apply, delta.apply_changes):
        target = base.copy()
        apply(as_bytes(changes), target)
        assert target.tobytes() == frame.tobytes()


@given(two_frames())
def test_changes_are_few_bytes_more_than_what_changed(frames: tuple[Bytes, Bytes]) -> None:
    frame, base = frames
    different = int((frame != base).sum())
    assert len(_changes.encode(frame, base)) <= 2 * different + 10


@pytest.mark.parametrize("gap", range(6))
def test_runs_are_joined_over_a_short_gap(gap: int) -> None:
    base, frame = np.zeros(100, np.uint8), np.zeros(100, np.uint8)
    frame[10] = frame[11 + gap] = 9
    changes = _changes.encode(frame, base)
    joined = bytes([10 << 4 | (gap + 1), 9, *[0] * gap, 9])
    apart = bytes([10 << 4, 9, gap << 4, 9])
    assert changes == (joined if gap <= _changes.GAP else apart)
    assert delta.encode_changes(frame, base) == changes


LIMITS = [0, 1, 13, 14, 15, 16, 17, 14 + 128, 15 + 127, 15 + 128, 15 + 129, 15 + 2**14 - 1, 15 + 2**14, 15 + 2**14 + 1]


@pytest.mark.parametrize("skip", LIMITS)
@pytest.mark.parametrize("run", [length + 1 for length in LIMITS])
def test_lengths_at_the_limits_of_a_nibble_and_of_a_varint(skip: int, run: int) -> None:
    for behind in (0, 1, 200):
        base = np.zeros(skip + run + behind, np.uint8)
        frame = base.copy()
        frame[skip : skip + run] = 1
        changes = _changes.encode(frame, base)
        assert delta.encode_changes(frame, base) == changes
        extra = sum(len(_changes.varint(n - 15)) for n in (skip, run - 1) if n >= 15)
        assert len(changes) == 1 + extra + run
        for apply in (_changes.apply, delta.apply_changes):
            target = base.copy()
            apply(as_bytes(changes), target)
            assert target.tobytes() == frame.tobytes()


@pytest.mark.parametrize("size", [2**21 + 100, 2**21 + 16])
def test_a_run_of_megabytes(size: int) -> None:
    base, frame = np.zeros(2 * size, np.uint8), np.zeros(2 * size, np.uint8)
    frame[size:] = 3
    changes = _changes.encode(frame, base)
    assert delta.encode_changes(frame, base) == changes
    delta.apply_changes(as_bytes(changes), base)
    assert (base == frame).all()


@given(st.integers(0, 2**35 - 1))
def test_varints(value: int) -> None:
    data = _changes.varint(value)
    assert _changes.read_varint(data, 0) == (value, len(data))
    assert _changes.read_varint(b"xy" + data + b"z", 2) == (value, 2 + len(data))
    for cut in range(len(data)):
        with pytest.raises(CorruptPayloadError):
            _changes.read_varint(data[:cut], 0)


def test_a_number_that_does_not_end_is_refused() -> None:
    for data in (b"\x80" * 5, b"\xff" * 6 + b"\0", b"\x80" * 50, b""):
        with pytest.raises(CorruptPayloadError):
            _changes.read_varint(data, 0)


BAD = [
    b"\x00",  # a run without its byte
    b"\x05abc",
    b"\xf0",  # a skip that does not end
    b"\xf0\x80\x80\x80\x80\x80\x80\x00a",
    b"\xf0\x7fa",  # beyond the frame
    b"\x0f",
    b"\x0f\xff\xff\xff\xff\x7f" + b"a" * 20,
    b"\xff\xff\xff\xff\xff\x0f\xff\xff\xff\xff\x0f" + b"a" * 20,
    b"\xe0a" * 5,
    b"\x0f\x00" + b"a" * 15,
]


@pytest.mark.parametrize("bad", BAD, ids=repr)
def test_changes_that_do_not_fit_are_refused(bad: bytes) -> None:
    for apply in (_changes.apply, delta.apply_changes):
        with pytest.raises(CorruptPayloadError):
            apply(as_bytes(bad), np.zeros(64, np.uint8))


@given(two_frames(), st.integers(0, 2**31))
def test_formula_and_kernel_agree_on_what_is_corrupt(frames: tuple[Bytes, Bytes], seed: int) -> None:
    kernels = native("codecs._delta_kernels")
    if kernels is None:
        pytest.skip("no kernels here")
    frame, base = frames
    for bad in mutations(_changes.encode(frame, base), 12, seed=seed):
        data, by_kernel, by_formula = as_bytes(bad), base.copy(), base.copy()
        fits = kernels.apply_checked(data.ctypes.data, data.size, by_kernel.ctypes.data, by_kernel.size)
        try:
            _changes.apply(data, by_formula)
        except CorruptPayloadError:
            assert not fits
            assert by_kernel.tobytes() == base.tobytes(), "changed in part"
        else:
            assert fits
            assert by_kernel.tobytes() == by_formula.tobytes()
