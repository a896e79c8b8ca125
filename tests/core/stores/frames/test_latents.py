"""States of agents beside images: numbers in wider types than they need, found by "auto" and kept in what they need."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compressed_array as ca
from compressed_array._stores.frames import residuals
from compressed_array._stores.frames.codebooks import BOOK_NBYTES
from compressed_array._stores.frames.tables import MOST_REFERENCES
from core_helpers.arrays import assert_same, random_bits
from core_helpers.streams import check_store

Array = np.ndarray[Any, Any]
needs_kernels = pytest.mark.skipif(not ca.has_numba(), reason="without kernels, so many steps take long")


def brain_floats(values: Array) -> Array:
    """The nearest below of those floats that have eight bits of mantissa: bfloat16, in float32."""
    return (values.astype("<f4").view("<u4") & np.uint32(0xFFFF0000)).view("<f4")


def brains(rng: np.random.Generator, steps: int, lanes: int, nbytes: int) -> Array:
    return brain_floats(rng.normal(size=(steps, lanes, nbytes // 4)))


def halves(rng: np.random.Generator, steps: int, lanes: int, nbytes: int) -> Array:
    return rng.normal(size=(steps, lanes, nbytes // 4)).astype("<f2").astype("<f4")


def one_hot(rng: np.random.Generator, steps: int, lanes: int, nbytes: int) -> Array:
    return np.eye(32, dtype="<f4")[rng.integers(0, 32, (steps, lanes, nbytes // 128))]


def mixed(rng: np.random.Generator, steps: int, lanes: int, nbytes: int) -> Array:
    hot = one_hot(rng, steps, lanes, nbytes // 5).reshape(steps, lanes, -1)
    return np.concatenate([brains(rng, steps, lanes, nbytes - hot.itemsize * hot.shape[-1]), hot], axis=-1)


def walks(rng: np.random.Generator, steps: int, lanes: int, nbytes: int) -> Array:
    noise = 0.14 * rng.normal(size=(steps, lanes, nbytes // 4))
    for t in range(1, steps):
        noise[t] += 0.99 * noise[t - 1]
    return brain_floats(noise)


def counts(rng: np.random.Generator, steps: int, lanes: int, nbytes: int) -> Array:
    return rng.integers(0, 256, (steps, lanes, nbytes // 4)).astype("<i4")


def long_counts(rng: np.random.Generator, steps: int, lanes: int, nbytes: int) -> Array:
    return rng.integers(0, 256, (steps, lanes, nbytes // 8)).astype("<i8")


def signed(rng: np.random.Generator, steps: int, lanes: int, nbytes: int) -> Array:
    return rng.integers(-100, 100, (steps, lanes, nbytes // 4)).astype("<i4")


Source = Callable[[np.random.Generator, int, int, int], Array]


def ring(plain: Array, size: int) -> tuple[Any, Array]:
    """An array that the steps went round in, and what it should hold."""
    array = ca.zeros((size, *plain.shape[1:]), plain.dtype, item_ndim=plain.ndim - 2, codec="auto")
    for t, step in enumerate(plain):
        array[t % size] = step
    first = len(plain) - size
    return array, np.roll(plain[first:], first % size, axis=0)


# Of a stream that fills its ring once. A ring that goes round holds some more: segments of which a part is dead.
LIMITS: list[tuple[Source, int, int, int, float]] = [
    (brains, 256, 4000, 4, 0.45),
    (brains, 4096, 2000, 2, 0.45),
    (brains, 65536, 500, 1, 0.45),
    (halves, 4096, 2000, 2, 0.45),
    (one_hot, 4096, 2000, 2, 0.03),
    (mixed, 20480, 1000, 2, 0.35),
    (walks, 4096, 2000, 2, 0.45),
    (counts, 1024, 3000, 4, 0.3),
    (long_counts, 256, 4000, 4, 0.3),
    (signed, 4096, 2000, 2, 0.3),
]
# The sizes between these.
MORE_LIMITS: list[tuple[Source, int, int, int, float]] = [
    (brains, 1024, 3000, 4, 0.45),
    (brains, 16384, 1000, 2, 0.45),
    (halves, 16384, 1200, 2, 0.45),
    (one_hot, 16384, 1000, 2, 0.03),
    (counts, 4096, 2000, 2, 0.3),
    (counts, 16384, 1000, 2, 0.3),
    (long_counts, 4096, 2000, 2, 0.3),
]


@needs_kernels
@pytest.mark.parametrize(
    ("source", "nbytes", "steps", "lanes", "limit"),
    [*LIMITS, *(pytest.param(*limit, marks=pytest.mark.slow) for limit in MORE_LIMITS)],
    ids=lambda part: getattr(part, "__name__", str(part)),
)
def test_what_streams_of_states_take(source: Source, nbytes: int, steps: int, lanes: int, limit: float) -> None:
    plain = source(np.random.default_rng(0), steps, lanes, nbytes)
    array, expected = ring(plain, steps)
    assert array.nbytes_stored <= limit * expected.nbytes
    assert_same(array, expected)
    array, expected = ring(plain, 2 * steps // 3)
    # A ring is never far from full, and what it has spare does not grow with it.
    assert array.nbytes_stored <= 1.03 * limit * expected.nbytes + 512 * 1024
    assert_same(array, expected)
    rows, columns = np.random.default_rng(1).integers(0, [[len(expected)], [lanes]], (2, 32))
    assert_same(array[rows, columns], expected[rows, columns])


@needs_kernels
@pytest.mark.parametrize(("source", "limit"), [(brains, 0.45), (halves, 0.45), (one_hot, 0.03), (counts, 0.3)])
@pytest.mark.parametrize("nbytes", [4096, 16384])
def test_short_streams_take_little_more(source: Source, limit: float, nbytes: int) -> None:
    plain = source(np.random.default_rng(0), 500, 2, nbytes)
    array, expected = ring(plain, 500)
    assert array.nbytes_stored <= 1.1 * limit * expected.nbytes
    assert_same(array, expected)


def odd_ones(plain: Array, rng: np.random.Generator) -> Array:
    """With some words that no book foresees: NaNs with payloads, infinities, subnormals, zeros of both signs."""
    odd = np.array([0x7FC00001, 0xFFFFFFFF, 0x7F800000, 0xFF800000, 1, 0x80000001, 0x80000000, 0], "<u4")
    words = plain.view("<u4").copy()
    places = rng.random(plain.shape) < 0.003
    words[places] = rng.choice(odd, np.count_nonzero(places))
    return words.view("<f4")


@pytest.mark.parametrize("source", [brains, halves, one_hot, mixed])
@pytest.mark.parametrize("nbytes", [640, 2560])
def test_every_bit_comes_back(source: Source, nbytes: int, tmp_path: Path) -> None:
    """Of words that no book foresees as well, of whole frames of those, and after a journey."""
    rng = np.random.default_rng(nbytes)
    plain = odd_ones(source(rng, 160, 2, nbytes), rng)
    plain[100:150:10] = random_bits(plain[100:150:10].shape, plain.dtype, rng)
    array, expected = ring(plain, 120)
    assert residuals.predictor(array.store._policy.settings.prediction) == residuals.BOOK
    assert_same(array, expected)
    check_store(array)
    ca.save(tmp_path / "states.ca", array)
    for back in (pickle.loads(pickle.dumps(array)), ca.load(tmp_path / "states.ca")):
        assert_same(back, expected)
        for t in range(60):
            back[t] = plain[t]
        assert_same(back[:60], plain[:60])
        assert_same(back[60:], expected[60:])
        check_store(back)


def test_a_book_is_replaced_by_one_that_suits_better(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    early, late = brains(rng, 200, 1, 512), halves(rng, 400, 1, 512) * np.float32(2**12)
    array, expected = ring(np.concatenate([early, late]), 600)
    assert len(array.store._frames.references) > 2
    assert_same(array, expected)
    monkeypatch.setattr("compressed_array._stores.frames.trials.MOST_REFERENCES", 2)
    array, _ = ring(np.concatenate([early, late]), 600)
    assert len(array.store._frames.references) == 2 < MOST_REFERENCES
    assert_same(array, expected)


def test_noise_leaves_no_books_behind() -> None:
    plain = np.random.default_rng(0).normal(size=(400, 1, 256)).astype("<f4")
    array, expected = ring(plain, 400)
    assert all(reference.size != BOOK_NBYTES for reference in array.store._frames.references)
    assert_same(array, expected)


def test_states_need_no_zstd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compressed_array._stores.frames.policy.has_zstd", lambda: False)
    array, expected = ring(brains(np.random.default_rng(0), 300, 1, 1024), 300)
    assert array.nbytes_stored < 0.55 * expected.nbytes  # of so few, of which the first take all they have
    assert_same(array, expected)
    assert_same(pickle.loads(pickle.dumps(array)), expected)
