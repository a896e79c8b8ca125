"""Memory that is lent for answers: never to two at once, never without bound."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import compressed_array as ca
from compressed_array._runtime.output_pool import LARGEST, SMALLEST, OutputPool

pytestmark = pytest.mark.same_everywhere

BYTES = np.dtype(np.uint8)


def address(array: Any) -> int:
    return int(np.asarray(array).__array_interface__["data"][0])


# What may be left of an answer when the answer itself is dropped.
REMAINS = {
    "the array": lambda a: a,
    "a slice": lambda a: a[3:9, 1],
    "a view of a view": lambda a: a[::2].T[1:].view(np.uint8),
    "another dtype": lambda a: a.view(np.int16)[0],
    "a memoryview": lambda a: memoryview(a)[1:2],
    "what is made of one": lambda a: np.frombuffer(memoryview(a[2]), np.uint8),
    "the base": lambda a: a[0].base,
    "a subclass": lambda a: a.view(np.recarray),
}


@pytest.mark.parametrize("left", REMAINS)
def test_whoever_still_looks_at_a_part_keeps_it(left: str) -> None:
    lender = OutputPool()
    answer = lender.lend((16, SMALLEST // 16), BYTES)
    answer[...] = 7
    was, remains = address(answer), REMAINS[left](answer)
    del answer
    others = [lender.lend((16, SMALLEST // 16), BYTES) for _ in range(3)]
    for other in others:
        other[...] = 9
    assert (np.asarray(remains).view(np.uint8) == 7).all()
    del remains
    gc.collect()
    assert address(lender.lend((16, SMALLEST // 16), BYTES)) == was


@given(
    st.lists(
        st.one_of(st.tuples(st.just("lend"), st.integers(0, 5)), st.tuples(st.just("drop"), st.integers(0, 9))),
        max_size=60,
    )
)
def test_no_two_share_memory_and_there_is_never_too_much(steps: list[tuple[str, int]]) -> None:
    lender = OutputPool(most=8 * SMALLEST)
    held: list[tuple[Any, int]] = []
    for count, (what, which) in enumerate(steps):
        if what == "lend":
            array = lender.lend(((which + 1) * SMALLEST // 2,), BYTES)
            array[...] = count % 251
            held.append((array[:: which + 1], count % 251))
            del array
        elif held:
            del held[which % len(held)]
        assert all((part == value).all() for part, value in held)
        assert lender.nbytes <= 8 * SMALLEST
    held.clear()
    assert sum(block.nbytes for block in lender._free) == lender.nbytes
    assert not lender._lent


def test_sizes_that_are_no_longer_asked_for_make_room() -> None:
    lender = OutputPool(most=4 * SMALLEST)
    for blocks in (1, 2, 3, 4, 1):
        kept = [lender.lend((SMALLEST * 4 // blocks,), BYTES) for _ in range(blocks)]
        assert len({address(array) for array in kept}) == blocks
        assert len(lender._lent) == blocks
        del kept
        assert lender.nbytes <= 4 * SMALLEST


@pytest.mark.parametrize("nbytes", [0, 1, SMALLEST - 1, LARGEST + 1])
def test_small_and_large_answers_have_memory_of_their_own(nbytes: int) -> None:
    assert OutputPool().lend((nbytes,), BYTES).flags.owndata


@pytest.mark.parametrize("dtype", ["u1", "<f4", ">i8", "c16", "M8[s]", "S7", "U3", "?", [("a", "i2"), ("b", "f8", 3)]])
def test_answers_are_of_their_dtype_and_writable(dtype: Any) -> None:
    wanted = np.dtype(dtype)
    array = OutputPool().lend((3, SMALLEST), wanted)
    assert array.dtype == wanted
    assert array.shape == (3, SMALLEST)
    assert array.flags.writeable
    assert array.flags.c_contiguous
    assert array.flags.aligned


def test_batches_do_not_change_under_whoever_holds_them() -> None:
    plain = np.random.default_rng(0).integers(0, 4, (64, 4, 60, 60), np.uint8)
    array = ca.compress(plain)
    rng, held = np.random.default_rng(1), []
    for _ in range(200):
        rows = rng.integers(0, 64, 8)
        held.append((rows, array[rows]))
        if len(held) > 5:
            held.pop(int(rng.integers(5)))
        for rows, batch in held:
            np.testing.assert_array_equal(batch, plain[rows])


def test_threads_that_sample_at_once() -> None:
    plain = np.random.default_rng(0).integers(0, 4, (64, 4, 60, 60), np.uint8)
    array, wrong = ca.compress(plain), []

    def sample(seed: int) -> None:
        rng, last = np.random.default_rng(seed), None
        for _ in range(150):
            rows = rng.integers(0, 64, 8)
            batch = array[rows]
            if last is not None and not np.array_equal(last[1], plain[last[0]]):
                wrong.append(seed)
            last = rows, batch

    threads = [threading.Thread(target=sample, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_answer_that_outlives_everything_ends_in_silence() -> None:
    code = """if True:
        import sys
        import numpy as np, compressed_array as ca
        array = ca.compress(np.zeros((8, 100, 100), np.uint8))
        sys.answers = [array[[0, 1, 2, 3, 4, 5, 6, 7]] for _ in range(3)]
        ring = sys.answers
        ring.append(ring)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
