"""All that the package uses of numba: compiling kernels, reaching memory, and two kernels that only move bytes.

Importing this module needs numba: only modules of kernels import it, and those are had from `loading.native`. A
kernel is compiled, or loaded from numba's cache, when the module that holds it is imported, for the one signature it
declares: nothing is left to compile later, in a forked worker or under two threads at once.

Kernels take addresses, because the payloads of a batch lie in many segments. An address is good for as long as its
owner keeps the array; every bound is the kernel's own duty.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numba.extending
import numpy as np
import numpy.ma
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils

Kernel = Callable[..., Any]
# A number inside a kernel: an address, a size or the bits of an item. Numba knows which; mypy sees no types there.
Word = Any
EACH_BYTE = np.uint64(0x0101010101010101)  # a 1 in each byte of a word


if numba.config.DISABLE_JIT:
    raise ImportError("NUMBA_DISABLE_JIT is set, and a kernel is nothing but machine code")


COMPILING = "compiling kernels, which takes some ten seconds, once; init_jit() does so ahead of time"
NO_CACHE = "a kernel is not kept on disk but compiled in every process; set NUMBA_CACHE_DIR to a folder to write to"


@cache
def _say_once(level: int, message: str) -> None:
    logging.getLogger("compressed_array").log(level, message)


def jit(signature: Any) -> Callable[[Kernel], Kernel]:
    """Compiles a kernel for `signature` now, and keeps the machine code on disk where numba finds a place for it."""

    def compile_kernel(function: Kernel) -> Kernel:
        try:
            # Numba's cache looks for changes in the kernel's own file alone, and what is compiled into a kernel comes
            # from several. Its cache's files are named after the function.
            function.__qualname__ = f"{function.__name__}-{_sources()}"
            kernel = numba.njit(signature, nogil=True, no_cfunc_wrapper=True, cache=True)(function)
            if kernel.stats.cache_misses:
                _say_once(logging.INFO, COMPILING)
            return kernel  # type: ignore[no-any-return]  # numba has no types
        except Exception:  # a read-only installation, no home directory, a full disk, a file that was cut short
            _say_once(logging.WARNING, NO_CACHE)
            return numba.njit(signature, nogil=True, no_cfunc_wrapper=True)(function)  # type: ignore[no-any-return]  # numba has no types

    return compile_kernel


def c_function(signature: Any) -> Callable[[Kernel], Any]:
    """Compiles a function that kernels call by its `address`, and Python by its `ctypes`, for as long as it is kept.

    For rarely used code: a kernel that calls it by its address is compiled without it.
    """

    def compile_function(function: Kernel) -> Any:
        try:
            function.__qualname__ = f"{function.__name__}-{_sources()}"
            return numba.cfunc(signature, cache=True)(function)
        except Exception:  # as above
            _say_once(logging.WARNING, NO_CACHE)
            return numba.cfunc(signature)(function)

    return compile_function


@cache
def _sources() -> str:
    """Returns a hash of all files of the package, so that no machine code is older than what it is made of."""
    package = Path(__file__).parents[1]
    files = sorted(package.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def helper(function: Kernel) -> Kernel:
    """Makes a function that kernels call. It is compiled as a function of its own, once for all of a kernel's calls."""
    # Without what Python or C would call it by, which takes longer to compile than many of these functions.
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return numba.njit(nogil=True, **options)(function)  # type: ignore[no-any-return]  # numba has no types


def inline_helper(function: Kernel) -> Kernel:
    """Makes a function that a kernel calls at one place, where it is put in before compiling, which takes less time."""
    return numba.njit(nogil=True, inline="always")(function)  # type: ignore[no-any-return]  # numba has no types


def intrinsic(function: Kernel) -> Kernel:
    """Makes a function out of the instructions that it compiles to."""
    return numba.extending.intrinsic(function)  # type: ignore[no-any-return]  # numba has no types


def _loader(bits: int) -> Kernel:
    @intrinsic
    def load(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
            return builder.zext(builder.load(pointer, align=1), ir.IntType(64))

        return types.uint64(types.int64), codegen

    return load


def _storer(bits: int) -> Kernel:
    @intrinsic
    def store(typingctx: Any, address: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
            builder.store(builder.trunc(args[1], ir.IntType(bits)), pointer, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.uint64), codegen

    return store


load8, load16, load32, load64 = _loader(8), _loader(16), _loader(32), _loader(64)
store8, store32, store64 = _storer(8), _storer(32), _storer(64)


def viewer(element: Any, nbytes: int) -> Kernel:
    """Returns a function that views memory at an address as so many elements, without keeping the memory alive."""
    array = types.Array(element, 1, "C")

    @intrinsic
    def view_at(typingctx: Any, address: Any, size: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            view = context.make_array(array)(context, builder)
            step = context.get_constant(types.intp, nbytes)
            context.populate_array(
                view,
                data=builder.inttoptr(args[0], view.data.type),
                shape=cgutils.pack_array(builder, [args[1]]),
                strides=cgutils.pack_array(builder, [step]),
                itemsize=step,
                meminfo=None,
            )
            return view._getvalue()

        return array(types.int64, types.int64), codegen

    return view_at


def record_viewer(dtype: np.dtype[np.void]) -> Kernel:
    """Returns a function that views memory at an address as a record, with the fields as attributes."""
    record = numba.from_dtype(dtype)

    @intrinsic
    def record_at(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(record))

        return record(types.int64), codegen

    return record_at


def records_of(dtype: np.dtype[np.void]) -> Any:
    """Returns numba's type of arrays of such records, whose fields are attributes of their elements."""
    return types.Array(numba.from_dtype(dtype), 1, "C")


bytes_at, numbers_at, words_at = viewer(types.uint8, 1), viewer(types.uint32, 4), viewer(types.int64, 8)


@intrinsic
def copy_bytes(typingctx: Any, target: Any, source: Any, size: Any) -> Any:
    """Copies `size` bytes between addresses whose ranges do not overlap, by memcpy."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        pointers = (builder.inttoptr(args[0], byte), builder.inttoptr(args[1], byte))
        cgutils.raw_memcpy(builder, *pointers, args[2], context.get_constant(types.intp, 1))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def difference(typingctx: Any, a: Any, b: Any) -> Any:
    """Returns zero if the 16 words of 64 bits at `a` and at `b` are equal, else the bits that differ in any of them."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word, vector = ir.IntType(64), ir.VectorType(ir.IntType(64), 8)
        found = None
        for offset in (0, 64):
            at = [builder.add(arg, ir.Constant(word, offset)) for arg in args]
            loaded = [builder.load(builder.inttoptr(address, vector.as_pointer()), align=1) for address in at]
            part = builder.xor(*loaded)
            found = part if found is None else builder.or_(found, part)
        kind = ir.FunctionType(word, [vector])
        reduce = cgutils.get_or_insert_function(builder.module, kind, "llvm.vector.reduce.or.v8i64")
        return builder.call(reduce, [found])

    return types.uint64(types.int64, types.int64), codegen


@intrinsic
def merge(typingctx: Any, target: Any, a: Any, b: Any, mask: Any) -> Any:
    """Writes 16 words of 64 bits to `target`, which may be `a`: the bits of `mask` from `a`, the others from `b`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word, vector = ir.IntType(64), ir.VectorType(ir.IntType(64), 8)
        lane = builder.insert_element(ir.Constant(vector, ir.Undefined), args[3], ir.Constant(ir.IntType(32), 0))
        kept = builder.shuffle_vector(lane, lane, ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8))
        merged = []
        for offset in (0, 64):
            at = [builder.add(arg, ir.Constant(word, offset)) for arg in args[1:3]]
            one, two = (builder.load(builder.inttoptr(address, vector.as_pointer()), align=1) for address in at)
            merged.append(builder.or_(builder.and_(one, kept), builder.and_(two, builder.not_(kept))))
        for offset, part in zip((0, 64), merged, strict=True):
            address = builder.add(args[0], ir.Constant(word, offset))
            builder.store(part, builder.inttoptr(address, vector.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.uint64), codegen


@intrinsic
def trailing_zeros(typingctx: Any, value: Any) -> Any:
    """Returns how many of the low bits of a nonzero uint64 are zero."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), codegen


@intrinsic
def fetch_add(typingctx: Any, address: Any, value: Any) -> Any:
    """Adds to the int64 at an address, atomically and as a memory barrier. Returns what it was."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", pointer, args[1], "seq_cst")

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def prefetch(typingctx: Any, address: Any) -> Any:
    """Prefetches the memory at an address into the CPU cache; any address will do."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        reading, keep, data = (ir.Constant(word, value) for value in (0, 3, 1))
        builder.call(function, [builder.inttoptr(args[0], byte), reading, keep, data])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@intrinsic
def call_sizes(typingctx: Any, function: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> Any:
    """Calls the C function at an address, with six pointers or size_t, the last maybe an int; it returns a size_t."""
    return types.int64(*[types.int64] * 7), _calling(64, [64] * 6)


@intrinsic
def call_pair(typingctx: Any, function: Any, a: Any, b: Any) -> Any:
    """Calls the C function at an address, with a pointer and a size_t; it returns a size_t."""
    return types.int64(*[types.int64] * 3), _calling(64, [64] * 2)


@intrinsic
def call_words(typingctx: Any, function: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Calls the C function at an address, with four words; it returns a word."""
    return types.int64(*[types.int64] * 5), _calling(64, [64] * 4)


@intrinsic
def call_ints(typingctx: Any, function: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> Any:
    """Calls the C function at an address, with three pointers and three ints; it returns an int."""
    return types.int64(*[types.int64] * 7), _calling(32, [64, 64, 64, 32, 32, 32])


@intrinsic
def call_block(typingctx: Any, function: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Calls the C function at an address, with two pointers and two ints; it returns an int."""
    return types.int64(*[types.int64] * 5), _calling(32, [64, 64, 32, 32])


def _calling(result_bits: int, argument_bits: list[int]) -> Kernel:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = [ir.IntType(bits) for bits in argument_bits]
        function = builder.inttoptr(args[0], ir.FunctionType(ir.IntType(result_bits), kinds).as_pointer())
        words = [builder.trunc(a, k) if k.width < 64 else a for a, k in zip(args[1:], kinds, strict=True)]
        result = builder.call(function, words)
        return result if result_bits == 64 else builder.sext(result, ir.IntType(64))

    return codegen


_BYTE, _FLOAT, _DOUBLE = np.dtype(np.uint8), np.dtype(np.float32), np.dtype(np.float64)
_ADDRESSED = [(types.uint8, ndim) for ndim in range(1, 6)] + [(types.float32, 2), (types.float64, 2)]


@jit([types.int64(types.Array(element, ndim, "A", readonly=True)) for element, ndim in _ADDRESSED])
def _address_of(array: Any) -> Word:
    return np.int64(array.ctypes.data)


def address_of(array: npt.NDArray[Any]) -> int:
    """Returns the address of an array's first byte. A kernel finds it: numpy would take as long as a short write."""
    dtype = array.dtype
    try:
        if dtype is _BYTE or ((dtype is _FLOAT or dtype is _DOUBLE) and array.ndim == 2):
            return _address_of(array)  # type: ignore[no-any-return]  # numba has no types
        return _address_of(array.view(_BYTE))  # type: ignore[no-any-return]  # numba has no types
    except (TypeError, ValueError):  # with more axes than are common, or with gaps between its elements
        return int(array.__array_interface__["data"][0])


@jit("void(int64[::1], uint8[:, ::1], int64, int64)")
def gather(addresses: Any, out: Any, low: Word, high: Word) -> None:
    """Copies a row's length of bytes from `addresses[i]` to `out[i]`, for the rows from `low` up to `high`."""
    nbytes = out.shape[1]
    target = np.int64(out.ctypes.data)  # numba would add the uint64 it is to an int64 as floats
    for i in range(low, high):
        copy_bytes(target + i * nbytes, addresses[i], nbytes)


@jit("void(int64[::1], int64[::1], uint8[::1], int64[::1])")
def pack(addresses: Any, sizes: Any, out: Any, offsets: Any) -> None:
    """Copies `sizes[i]` bytes from `addresses[i]` to `out[offsets[i]:]`. The caller has made sure that they fit."""
    target = np.int64(out.ctypes.data)  # numba would add the uint64 it is to an int64 as floats
    for i in range(addresses.shape[0]):
        copy_bytes(target + offsets[i], addresses[i], sizes[i])
