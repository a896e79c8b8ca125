"""The C functions inside the compression libraries, so that a kernel can call them without Python in between.

The wheels of lz4 and zstandard hold their C library with its symbols; its interface is stable and documented. Where
a build hides them, batches go through the library's Python interface instead: slower, the same bytes.
"""

from __future__ import annotations

import ctypes
import importlib.util
import threading
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from compressed_array._runtime import loading


def _library(module: str) -> ctypes.CDLL | None:
    """Returns the shared library behind an extension module, or None if there is none that can be loaded."""
    # Importing the package around the module, and loading, are not to be cut off, by a fork or a signal's handler.
    return loading.undisturbed(partial(_open, module))


def _open(module: str) -> ctypes.CDLL | None:
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
    """The addresses of the functions of LZ4 that batches need."""

    start: int
    compress: int
    decompress: int


@cache
def lz4_block() -> LZ4Functions | None:
    """Returns LZ4's functions, out of the extension behind lz4.block; None where a build hides them."""
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

    def __init__(self, library: ctypes.CDLL) -> None:
        pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        self.create_compressor = _typed(library.ZSTD_createCCtx, pointer)
        self.free_compressor = _typed(library.ZSTD_freeCCtx, size, pointer)
        self.create_decompressor = _typed(library.ZSTD_createDCtx, pointer)
        self.free_decompressor = _typed(library.ZSTD_freeDCtx, size, pointer)
        # By reference: they leave the dictionary where it is, and it has to stay there.
        self.digest_to_compress = _typed(library.ZSTD_createCDict_byReference, pointer, pointer, size, number)
        self.digest_to_decompress = _typed(library.ZSTD_createDDict_byReference, pointer, pointer, size)
        self.free_to_compress = _typed(library.ZSTD_freeCDict, size, pointer)
        self.free_to_decompress = _typed(library.ZSTD_freeDDict, size, pointer)
        self.sizeof_to_compress = _typed(library.ZSTD_sizeof_CDict, size, pointer)
        self.sizeof_to_decompress = _typed(library.ZSTD_sizeof_DDict, size, pointer)
        self.call_frame_size = _typed(library.ZSTD_findFrameCompressedSize, size, pointer, size)
        # They differ in their last argument, which is a level or a digested dictionary.
        buffers = pointer, pointer, size, pointer, size
        self.call_with_level = _typed(library.ZSTD_compressCCtx, size, *buffers, number)
        self.call_with_dictionary = _typed(library.ZSTD_compress_usingCDict, size, *buffers, pointer)
        self.call_decompress = _typed(library.ZSTD_decompress_usingDDict, size, *buffers, pointer)
        self.with_level, self.with_dictionary = _address(self.call_with_level), _address(self.call_with_dictionary)
        self.decompress = _address(self.call_decompress)
        self.frame_size = _address(library.ZSTD_findFrameCompressedSize)
        self.content_size = _address(library.ZSTD_getFrameContentSize)
        self.is_error = _typed(library.ZSTD_isError, ctypes.c_uint, size)
        self._error_name = _typed(library.ZSTD_getErrorName, ctypes.c_char_p, size)

    def check(self, result: int, doing: str) -> None:
        """Raises if what a function of zstd's returned, or the int64 of the same bits, is an error."""
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
    """Returns zstd's functions, out of the extension that zstandard keeps for cffi; None where a build hides them."""
    library = _library("zstandard._cffi")
    if library is None:
        return None
    try:
        return ZstdFunctions(library)
    except AttributeError:
        return None


MOST_CONTEXTS = 4  # of a thread; those of high levels take megabytes


class ZstdContexts(threading.local):
    """A thread's own zstd contexts for all codecs, made when it first needs them and freed when the thread ends."""

    def __init__(self) -> None:
        self._compressors: dict[int, _Owned] = {}
        self._decompressor: _Owned | None = None

    def compressor(self, functions: ZstdFunctions, level: int) -> int:
        """Returns the address of a context to compress with: one for each level, since their sizes differ."""
        try:
            return self._compressors[level].address
        except KeyError:
            if len(self._compressors) == MOST_CONTEXTS:
                del self._compressors[next(iter(self._compressors))]
            made = self._compressors[level] = _Owned(functions.create_compressor(), functions.free_compressor)
            return made.address

    def decompressor(self, functions: ZstdFunctions) -> int:
        """Returns the address of a context to decompress with."""
        if self._decompressor is None:
            self._decompressor = _Owned(functions.create_decompressor(), functions.free_decompressor)
        return self._decompressor.address


_contexts = ZstdContexts()


class Compressor(NamedTuple):
    """What zstd compresses by: a function, a thread's context, and the function's last argument."""

    function: int
    context: int
    setting: int


class Decompressor(NamedTuple):
    """What zstd decompresses by: a thread's context, and the function's last argument."""

    context: int
    dictionary: int


class ZstdCalls:
    """How zstd's functions are to be called for a level and a dictionary; any number of threads share one."""

    def __init__(self, functions: ZstdFunctions, level: int, dictionary: bytes | None) -> None:
        self.functions, self._level, self._dictionary = functions, level, dictionary
        self._to_compress: _Owned | None = None
        self._to_decompress: _Owned | None = None

    @property
    def compressor(self) -> Compressor:
        """What the calling thread compresses by."""
        functions = self.functions
        function = functions.with_level if self._dictionary is None else functions.with_dictionary
        return Compressor(function, _contexts.compressor(functions, self._level), self._setting)

    @property
    def decompressor(self) -> Decompressor:
        """What the calling thread decompresses by."""
        return Decompressor(_contexts.decompressor(self.functions), self._digested)

    def compress(self, *buffers: int) -> int:
        """Compresses: takes target address, room, source address and size, and returns what zstd does."""
        functions = self.functions
        call = functions.call_with_level if self._dictionary is None else functions.call_with_dictionary
        return int(call(_contexts.compressor(functions, self._level), *buffers, self._setting))

    def decompress(self, *buffers: int) -> int:
        """Decompresses: takes target address, room, source address and size, and returns what zstd does."""
        return int(self.functions.call_decompress(_contexts.decompressor(self.functions), *buffers, self._digested))

    def stop_compressing(self) -> None:
        """Frees what only compressing needs; no thread may be compressing."""
        self._to_compress = None

    @property
    def nbytes(self) -> int:
        """Returns the memory of digested dictionaries, in bytes."""
        functions, made, read = self.functions, self._to_compress, self._to_decompress
        writing = 0 if made is None else int(functions.sizeof_to_compress(made.address))
        return writing + (0 if read is None else int(functions.sizeof_to_decompress(read.address)))

    @property
    def _setting(self) -> int:
        if self._dictionary is None:
            return self._level
        if self._to_compress is None:
            with loading.lock:  # for which a fork waits
                if self._to_compress is None:
                    digest = self.functions.digest_to_compress(self._dictionary, len(self._dictionary), self._level)
                    self._to_compress = _Owned(digest, self.functions.free_to_compress)
        return self._to_compress.address

    @property
    def _digested(self) -> int:
        if self._dictionary is None:
            return 0
        if self._to_decompress is None:
            with loading.lock:  # for which a fork waits
                if self._to_decompress is None:
                    digest = self.functions.digest_to_decompress(self._dictionary, len(self._dictionary))
                    self._to_decompress = _Owned(digest, self.functions.free_to_decompress)
        return self._to_decompress.address


class _Owned:
    def __init__(self, address: int | None, free: Any) -> None:
        if not address:
            raise MemoryError("zstd could not allocate what it needs")
        self.address, self._free = address, free

    def __del__(self) -> None:
        if getattr(self, "address", None):
            self._free(self.address)
