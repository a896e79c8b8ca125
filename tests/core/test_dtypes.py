"""dtype discovery: shapes as they come, spaces by duck typing, and kernels compiled for what is used later."""

from __future__ import annotations

import math
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from compressed_array import CodecUnavailableError, find_buffer_dtypes, find_smallest_dtype, init_jit

pytestmark = pytest.mark.same_everywhere


@pytest.mark.parametrize(
    ("max_value", "signed", "expected"),
    [
        (0, False, "u1"),
        (255, False, "u1"),
        (256, False, "u2"),
        (65535, False, "u2"),
        (65536, False, "u4"),
        (2**32, False, "u8"),
        (2**64 - 1, False, "u8"),
        (2**64, False, "f4"),
        (127, True, "i1"),
        (128, True, "i2"),
        (-128, True, "i2"),
        (2**63, True, "f4"),
        (0.5, False, "f4"),
        (255.0, False, "u1"),
        (1e39, False, "f8"),
        (np.uint8(200), False, "u1"),
        (np.int8(-128), True, "i2"),
        (np.int64(-(2**63)), True, "f4"),
        (2**63 + 2**40, True, "f4"),
        (2**63 + 2**12, True, "f8"),
    ],
)
def test_smallest(max_value: float, signed: bool, expected: str) -> None:
    assert find_smallest_dtype(max_value, signed) == np.dtype(expected)


def test_smallest_holds_it_exactly() -> None:
    """A whole number that no dtype has is an error, not the number next to it."""
    with pytest.raises(ValueError, match="no dtype holds"):
        find_smallest_dtype(2**63 + 1, signed=True)
    with pytest.raises(ValueError, match="no dtype holds"):
        find_smallest_dtype(2**64 + 1)


def test_smallest_fallback() -> None:
    assert find_smallest_dtype(0.5, fallback=np.float16) == np.float16
    assert find_smallest_dtype(1e5 + 0.5, fallback=np.float16) == np.float32
    assert find_smallest_dtype(0.5, fallback=np.float64) == np.float64


@pytest.mark.parametrize("value", [True, math.nan, -1, math.inf, 10**400], ids=["bool", "nan", "-1", "inf", "huge"])
def test_smallest_refuses(value: float) -> None:
    with pytest.raises(ValueError, match=r"number|unsigned|no dtype"):
        find_smallest_dtype(value)


@pytest.mark.parametrize("shape", [28224, (4, 84, 84), [4, 84, 84], np.int64(28224), (np.int32(4), 7056)])
def test_buffer_dtypes_of_a_shape(shape: object) -> None:
    assert find_buffer_dtypes(shape) == {"elem_type": np.uint8, "runs_type": np.uint16}
    assert find_buffer_dtypes(obs_shape=shape, elem_dtype=np.float32)["elem_type"] == np.float32


@pytest.mark.parametrize(("shape", "runs"), [((), "u1"), ((255,), "u1"), ((256,), "u2"), ((300, 300), "u4")])
def test_runs_hold_every_element(shape: tuple[int, ...], runs: str) -> None:
    assert find_buffer_dtypes(shape)["runs_type"] == np.dtype(runs)


def test_bool_elements() -> None:
    assert find_buffer_dtypes((8,), bool)["elem_type"] == np.bool_


def test_buffer_dtypes_of_spaces() -> None:
    """A space's own dtype holds; a space of spaces gives one pair per key, whatever each holds."""
    image = SimpleNamespace(shape=(3, 64, 64), dtype=np.dtype(np.uint8))
    vector = SimpleNamespace(shape=(17,), dtype=np.dtype(np.float32))
    nested = SimpleNamespace(spaces={"image": image, "more": SimpleNamespace(spaces={"vector": vector})})
    assert find_buffer_dtypes(nested) == {
        "image": {"elem_type": np.uint8, "runs_type": np.uint16},
        "more": {"vector": {"elem_type": np.float32, "runs_type": np.uint8}},
    }
    assert find_buffer_dtypes(vector, elem_dtype=np.float64)["elem_type"] == np.float64


def test_spaces_without_keys_or_shape() -> None:
    with pytest.raises(ValueError, match="Dict space"):
        find_buffer_dtypes(SimpleNamespace(spaces=(1, 2)))
    with pytest.raises(ValueError, match="no fixed shape"):
        find_buffer_dtypes(SimpleNamespace(shape=None, dtype=None))


def test_init_jit_compiles_what_is_used() -> None:
    """After it, no kernel is compiled: in a fresh process, the compiler is taken away and everything still works."""
    pytest.importorskip("numba")
    code = """
import numpy as np
import compressed_array as ca
ca.init_jit(elem_type=np.float32, runs_type=np.uint32, anything="else")
from numba.core import compiler
def no_compiler(*args, **kwargs): raise AssertionError("compiled after init_jit")
compiler.compile_extra = no_compiler
records = np.zeros((40, 40000), np.uint8)
records.flags.writeable = False
for name in ("rle-jit", "zstd-3", "lz4-block"):
    try:
        codec = ca.get_codec(name)
    except ImportError:
        continue
    out = np.ones_like(records)
    codec.decode_batch(codec.encode_batch(records), out)
    codec.decode(codec.encode(records[0]))
    assert not out.any()
stream = ca.compress(records.reshape(1000, 1600), codec="delta")
stream[::3] = 1
assert stream[[0, 1, 999]].sum() == 3200
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_jit_method_is_warmed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr("compressed_array.dtypes.init_jit", lambda **kw: calls.append(kw))
    for other in ("zstd-3", "theirs-jit", "rle"):
        find_buffer_dtypes((8,), compression_method=other)
    assert not calls
    find_buffer_dtypes((8,), compression_method="rle-jit")
    assert len(calls) == 1


def test_init_jit_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(CodecUnavailableError, match=r"compressed-array\[numba\]"):
        init_jit()
