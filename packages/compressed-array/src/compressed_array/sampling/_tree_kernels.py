"""The tree of `_tree` as machine code: the same words after every update, and the same leaves found.

Every call checks all it is given before it changes anything, and says False if something is wrong: `_tree` then finds
out what. The arrays of a batch are the caller's own copies, of which nobody else changes anything in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from compressed_array._runtime.memory import CACHE_LINE
from compressed_array._runtime.numba_tools import Kernel, Word, helper, intrinsic, jit, prefetch
from compressed_array.sampling._tree import MASS_SLACK
from compressed_array.sampling._tree_nodes import CHILD_BITS, GREATEST, LEAST, SUM, WIDTH

NODE = 8 * WIDTH  # bytes
HALF = WIDTH // 2


def _halves(builder: Any, address: Any) -> list[Any]:
    """Returns the 16 doubles at an address, in two vectors."""
    lanes = ir.VectorType(ir.DoubleType(), HALF)
    second = builder.add(address, ir.Constant(ir.IntType(64), 8 * HALF))
    return [builder.load(builder.inttoptr(at, lanes.as_pointer()), align=8) for at in (address, second)]


def _shuffle(builder: Any, a: Any, b: Any, order: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(order)), order))


def _fold(each: Callable[..., Any], join: Callable[..., Any], end: Callable[..., Any]) -> Kernel:
    """Returns a function that makes one double of 16 at an address: of neighbours, then of pairs, and so on."""

    @intrinsic
    def fold(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            halves = [each(builder, lanes) for lanes in _halves(builder, args[0])]
            for size in (1, 2, 4):
                order = [i ^ size for i in range(HALF)]
                halves = [join(builder, lanes, _shuffle(builder, lanes, lanes, order)) for lanes in halves]
            return end(builder, builder.extract_element(join(builder, *halves), ir.Constant(ir.IntType(32), 0)))

        return types.float64(types.int64), codegen

    return fold


def _as_it_is(builder: Any, value: Any) -> Any:
    return value


def _lesser(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", a, b), a, b)


def _greater(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _zero_as_infinity(builder: Any, lanes: Any) -> Any:
    zeros, infinities = (ir.Constant(lanes.type, [value] * lanes.type.count) for value in (0.0, float("inf")))
    return builder.select(builder.fcmp_ordered(">", lanes, zeros), lanes, infinities)


def _infinity_as_zero(builder: Any, value: Any) -> Any:
    zero, infinity = (ir.Constant(value.type, number) for number in (0.0, float("inf")))
    return builder.select(builder.fcmp_ordered("<", value, infinity), value, zero)


sum_of = _fold(_as_it_is, lambda builder, a, b: builder.fadd(a, b), _as_it_is)
least_of = _fold(_zero_as_infinity, _lesser, _infinity_as_zero)
most_of = _fold(_as_it_is, _greater, _as_it_is)


@intrinsic
def count_passed(typingctx: Any, address: Any, mass: Any) -> Any:
    """Returns how many of 16 doubles at an address, laid end to end, end by `mass`, and the end of the last of them."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word, number = ir.IntType(64), ir.IntType(32)
        ends = _halves(builder, args[0])
        nothing = ir.Constant(ends[0].type, [0.0] * HALF)
        for size in (1, 2, 4):
            order = [(i // size * size - 1) if i & size else HALF for i in range(HALF)]
            ends = [builder.fadd(lanes, _shuffle(builder, lanes, nothing, order)) for lanes in ends]
        ends[1] = builder.fadd(ends[1], _shuffle(builder, ends[0], ends[0], [HALF - 1] * HALF))

        first = builder.insert_element(nothing, args[1], ir.Constant(number, 0))
        masses = _shuffle(builder, first, first, [0] * HALF)
        passed = ir.Constant(word, 0)
        for lanes in ends:
            bits = builder.bitcast(builder.fcmp_ordered("<=", lanes, masses), ir.IntType(HALF))
            passed = builder.add(passed, builder.ctpop(builder.zext(bits, word)))

        # By way of memory, since a lane with a number that is not known before is had in no other way.
        kept = cgutils.alloca_once(builder, ir.ArrayType(ends[0].type, 3))
        for k, lanes in enumerate([nothing, *ends]):
            builder.store(lanes, builder.gep(kept, [ir.Constant(number, 0), ir.Constant(number, k)]))
        doubles = builder.bitcast(kept, ir.DoubleType().as_pointer())
        before = builder.load(builder.gep(doubles, [builder.add(passed, ir.Constant(word, HALF - 1))]))
        return context.make_tuple(builder, signature.return_type, [passed, before])

    return types.Tuple([types.int64, types.float64])(types.int64, types.float64), codegen


@jit("boolean(float64[::1], int64[::1], int64, int64, float64, int64[::1], float64[::1])")
def update(words: Any, starts: Any, span: Word, capacity: Word, limit: Word, indices: Any, priorities: Any) -> Word:
    """Sets leaves, and recomputes every node above them once; overwrites `indices`. Returns whether all was valid."""
    base = np.int64(words.ctypes.data)
    for i in range(indices.shape[0]):
        if not (0 <= indices[i] < capacity and 0.0 <= priorities[i] <= limit):
            return False
        prefetch(base + (indices[i] >> CHILD_BITS) * NODE)
        prefetch(base + (indices[i] >> CHILD_BITS) * NODE + CACHE_LINE)
    for i in range(indices.shape[0]):
        words[indices[i]] = priorities[i] + 0.0  # of -0.0 this makes 0.0
    count = indices.shape[0]
    for level in range(1, starts.shape[0]):
        below, here = starts[level - 1], starts[level]
        kept = 0
        for i in range(count):  # a sum that is to be computed is -1 until then, so that it is kept once
            node = indices[i] >> CHILD_BITS
            indices[kept] = node
            kept += words[here + node] >= 0.0
            words[here + node] = -1.0
        count = kept
        beside = 0 if level == 1 else span
        for i in range(count):
            node = indices[i]
            children = base + 8 * below + NODE * node
            words[here + node + SUM * span] = sum_of(children + 8 * SUM * beside)
            words[here + node + LEAST * span] = least_of(children + 8 * LEAST * beside)
            words[here + node + GREATEST * span] = most_of(children + 8 * GREATEST * beside)
    return True


@helper
def _descend(words: Any, starts: Any, masses: Any, found: Any) -> None:
    """Finds leaves level by level, all of a batch side by side, so that the memory of many is waited for at once."""
    base = np.int64(words.ctypes.data)
    for i in range(found.shape[0]):
        found[i] = 0
    for level in range(starts.shape[0] - 2, -1, -1):
        for i in range(found.shape[0]):
            at = starts[level] + found[i] * WIDTH
            passed, before = count_passed(base + 8 * at, masses[i])
            masses[i] -= before
            if passed == WIDTH:
                masses[i] = np.inf
                passed -= 1
                while passed > 0 and words[at + passed] == 0.0:
                    passed -= 1
            found[i] = found[i] * WIDTH + passed
            if level > 0:
                children = base + 8 * starts[level - 1] + found[i] * NODE
                prefetch(children)
                prefetch(children + CACHE_LINE)


@jit("boolean(float64[::1], int64[::1], float64[::1], int64[::1])")
def find(words: Any, starts: Any, masses: Any, found: Any) -> Word:
    """Writes to `found` the leaves at `masses`, which are overwritten. Returns whether all masses were valid."""
    total = words[starts[-1]]
    slack = total * MASS_SLACK
    for i in range(masses.shape[0]):
        if not (total > 0.0 and -slack <= masses[i] <= total + slack):
            return False
    for i in range(masses.shape[0]):
        masses[i] = max(masses[i], 0.0)
    _descend(words, starts, masses, found)
    return True


@jit("boolean(float64[::1], int64[::1], float64[::1], boolean, int64[::1])")
def draw(words: Any, starts: Any, uniforms: Any, stratified: Word, found: Any) -> Word:
    """Writes to `found` the leaves at these shares of the total, or of one equal stretch of it each.

    Overwrites `uniforms`. Returns whether all of them were valid.
    """
    total, count = words[starts[-1]], uniforms.shape[0]
    for i in range(count):
        if not (total > 0.0 and 0.0 <= uniforms[i] <= 1.0):
            return False
    for i in range(count):
        uniforms[i] = (i + uniforms[i]) / count * total if stratified else uniforms[i] * total
    _descend(words, starts, uniforms, found)
    return True
