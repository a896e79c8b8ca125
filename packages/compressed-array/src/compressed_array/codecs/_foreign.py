"""The C functions inside the compression libraries, so that a kernel can call them without Python in between.

The wheels of lz4 and zstandard hold their C library with its symbols; its interface is stable and documented. Where
a build hides them, batches go through the library's Python interface instead: slower, the same bytes.
"""

from __future__ import annotations

import ctypes
import importlib.util
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from compressed_array import _kernels


def _library(module: str) -> ctypes.CDLL | None:
    """The shared library behind an extension module, if it is one and can be loaded."""
    with _kernels.lock:  # importing the package around the module, and loading, are not to be cut off by a fork
        try:
            spec = importlib.util.find_spec(module)
            if spec is None or spec.origin is None or not Path(spec.origin).is_file():
                return None
            return ctypes.CDLL(spec.origin)
        except (ImportError, OSError):
            return None


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@dataclass(frozen=True)
class LZ4Functions:
    """Where the functions of LZ4 are that batches need."""

    start: int
    compress: int
    decompress: int


@cache
def lz4_block() -> LZ4Functions | None:
    """LZ4's functions, out of the extension behind lz4.block."""
    library = _library("lz4.block._block")
    if library is None:
        return None
    names = ("LZ4_initStream", "LZ4_compress_fast_continue", "LZ4_decompress_safe")
    try:
        return LZ4Functions(*(_address(getattr(library, name)) for name in names))
    except AttributeError:
        return None


OUT_OF_MEMORY = 2**64 - 64  # -ZSTD_error_memory_allocation, as a size_t


class ZstdFunctions:
    """The part of zstd's interface that batches need."""

    COMPRESSION_LEVEL = 100  # ZSTD_c_compressionLevel

    def __init__(self, library: ctypes.CDLL) -> None:
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        self.create_compressor = _typed(library.ZSTD_createCCtx, pointer)
        self.free_compressor = _typed(library.ZSTD_freeCCtx, size, pointer)
        self.set_parameter = _typed(library.ZSTD_CCtx_setParameter, size, pointer, ctypes.c_int, ctypes.c_int)
        self.load_for_compressor = _typed(library.ZSTD_CCtx_loadDictionary, size, pointer, pointer, size)
        self.create_decompressor = _typed(library.ZSTD_createDCtx, pointer)
        self.free_decompressor = _typed(library.ZSTD_freeDCtx, size, pointer)
        self.load_for_decompressor = _typed(library.ZSTD_DCtx_loadDictionary, size, pointer, pointer, size)
        self.sizeof_compressor = _typed(library.ZSTD_sizeof_CCtx, size, pointer)
        self.call_compress = _typed(library.ZSTD_compress2, size, pointer, pointer, size, pointer, size)
        self.call_decompress = _typed(library.ZSTD_decompressDCtx, size, pointer, pointer, size, pointer, size)
        self.call_frame_size = _typed(library.ZSTD_findFrameCompressedSize, size, pointer, size)
        self.compress = _address(library.ZSTD_compress2)
        self.decompress = _address(library.ZSTD_decompressDCtx)
        self.frame_size = _address(library.ZSTD_findFrameCompressedSize)
        self.content_size = _address(library.ZSTD_getFrameContentSize)
        self.is_error = _typed(library.ZSTD_isError, ctypes.c_uint, size)
        self._error_name = _typed(library.ZSTD_getErrorName, ctypes.c_char_p, size)

    def check(self, result: int, doing: str) -> None:
        """Raise if what a function of zstd's returned, or the int64 of the same bits, is an error."""
        code = result % 2**64
        if self.is_error(code):
            reason = self._error_name(code).decode("ascii", "replace")
            # Its own checks have let the level, the dictionary and the sizes pass, so this is no wrong argument.
            raise (MemoryError if code == OUT_OF_MEMORY else RuntimeError)(f"zstd failed {doing}: {reason}")


def _typed(function: Any, result: Any, *arguments: Any) -> Any:
    function.restype, function.argtypes = result, arguments
    return function


@cache
def zstd() -> ZstdFunctions | None:
    """zstd's functions, out of the extension that the zstandard package keeps for cffi."""
    library = _library("zstandard._cffi")
    if library is None:
        return None
    try:
        return ZstdFunctions(library)
    except AttributeError:
        return None


class ZstdContexts(threading.local):
    """A thread's own zstd contexts, made when it first needs them and freed when the thread or the codec ends."""

    def __init__(self, functions: ZstdFunctions, level: int, dictionary: bytes | None) -> None:
        self._functions, self._level, self._dictionary = functions, level, dictionary
        self._compressor: _Owned | None = None
        self._decompressor: _Owned | None = None

    @property
    def compressor(self) -> int:
        if self._compressor is None:
            f = self._functions
            made = _Owned(f.create_compressor(), f.free_compressor)
            f.check(f.set_parameter(made.address, f.COMPRESSION_LEVEL, self._level), "to set the level")
            if self._dictionary is not None:
                loaded = f.load_for_compressor(made.address, self._dictionary, len(self._dictionary))
                f.check(loaded, "to load the dictionary")
            self._compressor = made
        return self._compressor.address

    @property
    def decompressor(self) -> int:
        if self._decompressor is None:
            f = self._functions
            made = _Owned(f.create_decompressor(), f.free_decompressor)
            if self._dictionary is not None:
                loaded = f.load_for_decompressor(made.address, self._dictionary, len(self._dictionary))
                f.check(loaded, "to load the dictionary")
            self._decompressor = made
        return self._decompressor.address

    @property
    def nbytes(self) -> int:
        """The memory of the calling thread's compressor, with its tables and copy of the dictionary."""
        return 0 if self._compressor is None else int(self._functions.sizeof_compressor(self._compressor.address))


class _Owned:
    def __init__(self, address: int | None, free: Any) -> None:
        if not address:
            raise MemoryError("zstd could not allocate a context")
        self.address, self._free = address, free

    def __del__(self) -> None:
        if getattr(self, "address", None):
            self._free(self.address)
