"""Law 7: what cannot be supported raises a named error that says what to do; nothing gives plausible wrong numbers."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import compressed_array as ca
from core_helpers.arrays import assert_same

PLAIN = np.arange(24, dtype=np.uint8).reshape(4, 6)


@pytest.fixture
def array() -> Any:
    return ca.compress(PLAIN, codec="none")


def test_a_plain_array_cannot_be_viewed_as_compressed() -> None:
    with pytest.raises(ca.UnsupportedOperationError, match="compress"):
        PLAIN.view(ca.CompressedArray)


def test_numpys_file_formats_are_refused(array: Any) -> None:
    for function in (np.save, np.savez, np.savez_compressed):
        with pytest.raises(ca.UnsupportedOperationError, match=r"compressed_array\.save"):
            function(io.BytesIO(), array)


def test_memory_that_is_not_there_is_not_shown(array: Any) -> None:
    for name in ("strides", "data", "ctypes", "__array_interface__", "__array_struct__"):
        assert not hasattr(array, name)
    with pytest.raises(BufferError, match="read"):
        array.__dlpack__()
    for change in (lambda: array.resize(3, 3), lambda: np.zeros(3, like=array)):
        with pytest.raises(ca.UnsupportedOperationError):
            change()
    with pytest.raises(AttributeError, match="reshape"):
        array.shape = (6, 4)
    with pytest.raises(AttributeError, match="astype"):
        array.dtype = np.int8


def test_memory_to_read_into_has_to_be_plain_and_writable(array: Any) -> None:
    target = ca.zeros((4, 6), np.uint8)
    protected = np.zeros((4, 6), np.uint8)
    protected.flags.writeable = False
    for out in (target, protected):
        with pytest.raises(ValueError, match="plain, writable"):
            array.read(out=out)
        assert not out.any()


def test_compressed_arrays_inside_lists_are_decoded(array: Any) -> None:
    assert_same(ca.compress([array, array]), np.stack([PLAIN, PLAIN]))
    target = ca.zeros((2, 4, 6), np.uint8)
    target[:] = [array, array]
    assert_same(target, np.stack([PLAIN, PLAIN]))


def test_numba_is_told_that_this_is_no_array_for_it() -> None:
    code = """
import numba, numpy as np, compressed_array as ca
a = ca.compress(np.arange(100, 108, dtype=np.uint32), item_ndim=0, codec="none")
@numba.njit
def first(v):
    return v[0]
try:
    print(first(a))
except TypeError as error:
    print(error)
"""
    pytest.importorskip("numba")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pass it a.read()" in run.stdout


def test_bad_arguments_name_what_is_wrong() -> None:
    with pytest.raises(ca.UnknownCodecError, match=r"zstdd.*known"):
        ca.zeros(3, codec="zstdd")
    with pytest.raises(ca.CodecLevelError, match="9"):
        ca.zeros(3, codec="gzip12")
    with pytest.raises(ValueError, match="item_ndim"):
        ca.zeros((3, 3), item_ndim=3)
    with pytest.raises(ValueError, match="negative"):
        ca.zeros((3, -3))
    with pytest.raises(ValueError, match="item_ndim"):
        ca.zeros((3, 2**33), np.uint8)


class RoundingCodec:
    """Another library's codec that is not lossless."""

    codec_id = "rounding"

    def encode(self, buf: Any) -> bytes:
        return np.asarray(buf).astype(np.float16).tobytes()

    def decode(self, buf: Any, out: Any = None) -> Any:
        return np.frombuffer(buf, np.float16).astype(np.float32)

    def get_config(self) -> dict[str, str]:
        return {"id": self.codec_id}


class ShortCodec(RoundingCodec):
    """Another library's codec that fills half of what it is given, and says nothing."""

    def decode(self, buf: Any, out: Any = None) -> Any:
        short = super().decode(buf)[:50]
        if out is not None:
            out[:50] = short
        return short


def test_a_codec_that_decodes_too_little_is_found_out() -> None:
    array = ca.zeros((3, 100), np.float32, codec=ShortCodec())
    with pytest.raises(ca.CorruptPayloadError, match="200 bytes where 400 belong"):
        array[0] = 0.5
    assert not array[0].any()


def test_a_codec_that_loses_bits_is_found_out() -> None:
    array = ca.zeros((3, 100), np.float32, codec=RoundingCodec())
    array[0] = 0.5
    with pytest.raises(ca.LossyWriteError, match="lossless"):
        array[1] = 0.1
    assert (array[0] == 0.5).all()
    assert not array[1].any()
