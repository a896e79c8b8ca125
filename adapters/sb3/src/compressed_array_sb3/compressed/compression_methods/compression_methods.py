"""Compatibility only: codecs as pairs of functions, which is what sb3-extra-buffers calls compression methods.

The bytes are those of this package's codecs and not of sb3-extra-buffers: each reads its own.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

import compressed_array as ca
from compressed_array import has_igzip, has_lz4, has_numba, has_zstd
from compressed_array_sb3 import _codecs
from compressed_array_sb3._spaces import cast

__all__ = [
    "COMPRESSION_METHOD_MAP",
    "CompressionMethods",
    "gzip_compress",
    "gzip_decompress",
    "has_igzip",
    "has_lz4",
    "has_numba",
    "has_zstd",
    "igzip_compress",
    "igzip_decompress",
    "no_compress",
    "no_decompress",
    "rle_compress",
    "rle_numpy_decompress",
    "rle_numpy_decompress_old",
]

Array = npt.NDArray[Any]


class Compress(Protocol):
    """A function that turns the elements of an array into bytes."""

    def __call__(
        self,
        arr: Array,
        elem_type: npt.DTypeLike = np.uint8,
        runs_type: npt.DTypeLike | None = None,
        compresslevel: int | None = None,
    ) -> bytes: ...


class Decompress(Protocol):
    """A function that turns those bytes back into elements, in one dimension unless `arr_configs` has a shape."""

    def __call__(
        self,
        data: bytes,
        elem_type: npt.DTypeLike = np.uint8,
        runs_type: npt.DTypeLike | None = None,
        arr_configs: dict[str, Any] | None = None,
    ) -> Array: ...


class CompressionMethods(NamedTuple):
    """The two functions of a method."""

    compress: Compress
    decompress: Decompress


def _compress(
    method: str,
    arr: Array,
    elem_type: npt.DTypeLike = np.uint8,
    runs_type: npt.DTypeLike | None = None,
    compresslevel: int | None = None,
    **_: Any,
) -> bytes:
    options = {} if compresslevel is None else {"compresslevel": compresslevel}
    values = cast(np.ascontiguousarray(arr).reshape(-1), np.dtype(elem_type))
    return bytes(_codec(method, values.dtype, options).encode(values))


def _decompress(
    method: str,
    data: bytes,
    elem_type: npt.DTypeLike = np.uint8,
    runs_type: npt.DTypeLike | None = None,
    arr_configs: dict[str, Any] | None = None,
    **_: Any,
) -> Array:
    dtype = np.dtype(elem_type)
    values: Array = np.frombuffer(_codec(method, dtype, {}).decode(data), dtype)
    if arr_configs is None:
        return values
    return values.astype(arr_configs.get("dtype", dtype), copy=False).reshape(arr_configs["shape"])


def _codec(method: str, dtype: np.dtype[Any], options: dict[str, Any]) -> Any:
    codec = ca.get_codec(_codecs.choose("auto", method, options))
    return codec.for_dtype(dtype)


def pair(method: str) -> CompressionMethods:
    """Returns the functions of a method; one whose library is missing raises when it is called."""
    return CompressionMethods(partial(_compress, method), partial(_decompress, method))


no_compress, no_decompress = pair("none")
rle_compress, rle_numpy_decompress = pair("rle")
rle_numpy_decompress_old = rle_numpy_decompress
gzip_compress, gzip_decompress = pair("gzip")
igzip_compress, igzip_decompress = pair("igzip")

_THEIRS = ("none", "rle", "rle-old", "gzip", "igzip", "rle-jit", "zstd", "lz4-frame", "lz4-block")
_KNOWN = ca.available_codecs()
COMPRESSION_METHOD_MAP = {name: pair(name) for name in _THEIRS if name == "rle-old" or _KNOWN[name].available}
