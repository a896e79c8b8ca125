"""`PriorityTree` beside a plain array of priorities, and its kernels beside numpy."""

from __future__ import annotations

import copy
import math
import os
import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compressed_array.errors import BusyStoreError, NothingToSampleError, PriorityError
from compressed_array.sampling import PriorityTree
from core_helpers.interruptions import Interruption

CAPACITIES = [1, 15, 16, 17, 255, 256, 257, 4097]
LARGEST = float(np.finfo(np.float64).max)
TINY = 5e-324
NOTHING = np.zeros(0)


@contextmanager
def without_kernels() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("compressed_array.sampling._tree.native", lambda module: None)
        yield


@pytest.fixture(params=["kernels", "numpy"])
def either(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "kernels":
        yield
    else:
        with without_kernels():
            yield


def tree_of(leaves: Any) -> PriorityTree:
    """A tree built from its leaves alone."""
    tree = PriorityTree(len(leaves))
    tree.load_state_dict({"priorities": np.array(leaves, np.float64)})
    return tree


def words(tree: PriorityTree) -> bytes:
    """Everything that a tree knows."""
    return tree._words.tobytes()


def check(tree: PriorityTree, leaves: np.ndarray) -> None:
    """That a tree is the one of these leaves, bit for bit, and right."""
    assert words(tree) == words(tree_of(leaves))
    assert (tree[np.arange(leaves.size)] == leaves).all()
    assert tree.total == pytest.approx(math.fsum(leaves), rel=1e-14, abs=0.0)
    assert tree.min == leaves.min(initial=math.inf, where=leaves > 0)
    assert tree.max == leaves.max()


def some_leaves(capacity: int, seed: int = 0, zeros: float = 0.4) -> np.ndarray:
    """Priorities over many magnitudes, a part of them zero, and not all."""
    rng = np.random.default_rng((seed, capacity))
    leaves = np.exp(rng.normal(0, 5, capacity)) * (rng.random(capacity) >= zeros)
    leaves[rng.integers(capacity)] = 1.0
    return leaves


def boundaries(leaves: np.ndarray, total: float) -> np.ndarray:
    """Masses at which round-off matters: where stretches begin and end, and the nearest numbers to these."""
    ends = np.concatenate([[0.0, total, total / 2, TINY], leaves.cumsum(), leaves[::-1].cumsum()[::-1]])
    near = [ends]
    for _ in range(3):
        near.append(np.nextafter(near[-1], np.inf))
    for _ in range(4):
        near.append(np.nextafter(near[-1], -np.inf))
    return np.concatenate(near)


priorities = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, TINY, 1e-300, 1e300, 2.0**-1022]),
    st.floats(0, 1e6),
    st.integers(0, 9).map(float),
)


@given(st.sampled_from(CAPACITIES), st.data())
def test_updates_one_after_the_other(capacity: int, data: st.DataObject) -> None:
    """Whatever is set, and set again: the kernels' tree, numpy's and one of the leaves alone are the same."""
    tree, twin, leaves = PriorityTree(capacity), PriorityTree(capacity), np.zeros(capacity)
    one = st.tuples(st.integers(0, capacity - 1), priorities)
    for batch in data.draw(st.lists(st.lists(one, max_size=40), max_size=6)):
        indices, values = [index for index, _ in batch], [value for _, value in batch]
        tree.update(indices, values)
        with without_kernels():
            twin.update(indices, values)
        for index, value in batch:
            leaves[index] = value
        check(tree, leaves + 0.0)
        assert words(twin) == words(tree)


@given(st.sampled_from(CAPACITIES), st.integers(0, 2**32), st.sampled_from([0.0, 0.4, 0.99]), st.booleans())
def test_kernels_find_what_numpy_finds(capacity: int, seed: int, zeros: float, stratified: bool) -> None:
    leaves = some_leaves(capacity, seed, zeros)
    tree = tree_of(leaves)
    masses = boundaries(leaves, tree.total)
    uniforms = np.random.default_rng(seed).random((7, 30))
    uniforms[0, :3] = 0.0, np.nextafter(1.0, 0.0), 1.0
    found, drawn = tree.find(masses), tree.draw(uniforms, stratified=stratified)
    with without_kernels():
        assert (tree.find(masses) == found).all()
        assert (tree.draw(uniforms, stratified=stratified) == drawn).all()
    shares = (np.arange(210) + uniforms.reshape(-1)) / 210 if stratified else uniforms.reshape(-1)
    assert (tree.find(shares * tree.total).reshape(7, 30) == drawn).all()
    assert (leaves[found] > 0).all()
    assert (leaves[drawn] > 0).all()
    ends = leaves.cumsum()
    slack = 1e-12 * tree.total
    assert (masses <= ends[found] + slack).all()
    assert (masses >= ends[found] - leaves[found] - slack).all()


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_stretches_are_exact_where_sums_are(capacity: int, either: None, rng: np.random.Generator) -> None:
    leaves = rng.integers(0, 4, capacity).astype(float)
    leaves[capacity // 2] = 3.0
    tree = PriorityTree(capacity)
    tree.update(np.arange(capacity), leaves)
    total = int(leaves.sum())
    assert tree.total == total
    starts = np.repeat(np.arange(capacity), leaves.astype(int))
    for shift in (0.0, 0.5, 1 - 2.0**-30):
        assert (tree.find(np.arange(total) + shift) == starts).all()
    assert tree.find(total) == np.flatnonzero(leaves)[-1]
    assert tree.find(np.nextafter(total, 0.0)) == np.flatnonzero(leaves)[-1]


@pytest.mark.parametrize("capacity", CAPACITIES)
@pytest.mark.parametrize("value", [TINY, 1e-310, 0.1, 1.0, 1e300])
def test_the_only_leaf_that_is_not_zero_is_always_found(capacity: int, value: float, either: None) -> None:
    for leaf in sorted({0, capacity // 3, capacity - 1}):
        tree = PriorityTree(capacity)
        tree.update(leaf, value)
        assert (tree.total, tree.min, tree.max) == (value, value, value)
        near = [0.0, -0.0, value, np.nextafter(value, 0.0), value / 2, value * (1 + 1e-9), -value * 1e-9]
        assert (tree.find(near) == leaf).all()
        assert (tree.draw([0.0, 0.5, 1.0 - 2.0**-53, 1.0]) == leaf).all()
        assert (tree.draw([0.0, 0.5, 1.0 - 2.0**-53], stratified=False) == leaf).all()


@pytest.mark.parametrize("seed", range(5))
def test_a_small_leaf_beside_large_ones_hides_no_zero(seed: int, either: None) -> None:
    """Where sums swallow what is added to them, stretches are empty, and those of zeros as well."""
    rng = np.random.default_rng(seed)
    leaves = rng.choice([0.0, 0.0, TINY, 1e-17, 1.0, 2.0**52, 1e16], 700)
    leaves[350] = 1.0
    tree = tree_of(leaves)
    assert (leaves[tree.find(boundaries(leaves, tree.total))] > 0).all()


def test_the_least_and_the_greatest_follow(either: None) -> None:
    tree = PriorityTree(300)
    assert (tree.total, tree.min, tree.max) == (0.0, math.inf, 0.0)
    tree.update([3, 40, 299], [5.0, 1.0, 9.0])
    assert (tree.min, tree.max) == (1.0, 9.0)
    tree.update(299, 2.0)
    assert (tree.min, tree.max) == (1.0, 5.0)
    tree.update(40, 3.0)
    assert (tree.min, tree.max) == (2.0, 5.0)
    tree.update([299, 3], 0)
    assert (tree.total, tree.min, tree.max) == (3.0, 3.0, 3.0)
    tree.update(40, -0.0)
    assert (tree.total, tree.min, tree.max) == (0.0, math.inf, 0.0)
    assert words(tree) == words(PriorityTree(300))
    assert type(tree.total) is type(tree.min) is type(tree.max) is float


def test_sums_do_not_drift(rng: np.random.Generator) -> None:
    """After a hundred thousand updates, a tree is that of its leaves alone, bit for bit."""
    tree, leaves = PriorityTree(4097), np.zeros(4097)
    for _ in range(500):
        indices, values = rng.integers(0, 4097, 200), np.exp(rng.normal(0, 8, 200))
        tree.update(indices, values)
        leaves[indices] = values
    check(tree, leaves)
    tree.update(np.arange(4097), 0.0)
    assert words(tree) == words(PriorityTree(4097))


def test_draws_are_in_proportion(either: None) -> None:
    """By the chi-square statistic, whose mean is the degrees of freedom and whose variance is twice that."""
    rng = np.random.default_rng(1)
    leaves = rng.integers(0, 6, 300).astype(float)
    tree = tree_of(leaves)
    expected = leaves / leaves.sum() * 200_000
    held = leaves > 0
    for stratified in (False, True):
        batches = [tree.draw(rng.random(500), stratified=stratified) for _ in range(400)]
        counts = np.bincount(np.concatenate(batches), minlength=300)
        assert not counts[~held].any()
        statistic = ((counts - expected)[held] ** 2 / expected[held]).sum()
        assert statistic < held.sum() + 5 * math.sqrt(2 * held.sum())


def test_stratified_draws_are_one_of_each_part(either: None) -> None:
    tree = tree_of(np.ones(64))
    assert (tree.draw(np.full(64, 0.5)) == np.arange(64)).all()
    assert (tree.draw(np.full((8, 8), 0.5)) == np.arange(64).reshape(8, 8)).all()
    assert (tree.draw(np.full(5, 0.5), stratified=False) == 32).all()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, ">i4"])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.longdouble, np.uint8, np.bool_, ">f8"])
def test_numbers_of_any_dtype(dtype: Any, kind: Any, either: None) -> None:
    tree, expected = PriorityTree(40), PriorityTree(40)
    indices, values = np.arange(2, 38, 3), np.arange(12) % 2
    tree.update(indices.astype(dtype), values.astype(kind))
    expected.update(indices, values)
    assert words(tree) == words(expected)
    assert (tree[indices.astype(dtype)] == values).all()


def test_arrays_of_any_shape_and_layout(either: None) -> None:
    plain, tree = PriorityTree(100), PriorityTree(100)
    indices, values = np.arange(24).reshape(4, 6) * 3, np.arange(24.0).reshape(4, 6)
    plain.update(indices.reshape(-1), values.reshape(-1))
    both = [array.copy() for array in (indices, values)]
    indices.flags.writeable = values.flags.writeable = False
    odd = np.frombuffer(b"\0" + values.tobytes(), np.uint8)[1:].view(np.float64).reshape(4, 6)
    for given_indices, given_values in [
        (indices, values),
        (np.asfortranarray(indices), values),
        (indices.T, np.asfortranarray(values).T),
        (indices[::-1, ::-1], values[::-1, ::-1]),
        (indices.tolist(), values.tolist()),
        (indices, odd),
    ]:
        tree.clear()
        tree.update(given_indices, given_values)
        assert words(tree) == words(plain)
        assert (tree[given_indices] == given_values).all()
    assert (indices == both[0]).all()
    assert (values == both[1]).all()
    masses = np.linspace(0, plain.total, 30).reshape(5, 6)
    masses.flags.writeable = False
    assert (plain.find(masses.T) == plain.find(masses).T).all()
    assert plain.find(3.0).shape == plain.draw(0.5).shape == plain[4].shape == ()
    assert (masses == np.linspace(0, plain.total, 30).reshape(5, 6)).all()


def test_batches_of_nothing(either: None) -> None:
    tree = PriorityTree(20)
    for nothing in ([], NOTHING, np.zeros((0, 3)), np.zeros((4, 0))):
        tree.update(nothing, nothing)
        tree.update(nothing, 1.0)
        for answer in (tree.find(nothing), tree.draw(nothing), tree[nothing]):
            assert answer.shape == np.shape(nothing)
    assert tree.find([]).dtype == tree.draw([]).dtype == np.int64
    assert tree[[]].dtype == np.float64
    assert words(tree) == words(PriorityTree(20))


WRONG_UPDATES = [
    ([0, 1], [1.0, math.nan], PriorityError, "number 1 is nan"),
    ([0, 1], [1.0, -1.0], PriorityError, "number 1 is -1.0"),
    ([0, 1], [math.inf, 1.0], PriorityError, "number 0 is inf"),
    ([0, 1], [LARGEST, 1.0], PriorityError, "summed"),
    ([0, 1], LARGEST / 20 * 1.001, PriorityError, "clip or scale"),
    ([0, 1], -TINY, PriorityError, "number 0 is -5e-324"),
    ([0, 1], np.array([1, 10], np.longdouble) ** 400, PriorityError, "number 1 is inf"),
    ([0, 1], [1.0, 2.0, 3.0], PriorityError, "give each one"),
    ([0, 1], [1.0], PriorityError, "give each one"),
    ([0, 1], ["1", "2"], TypeError, "priorities are numbers"),
    ([0, 1], [1j, 1.0], TypeError, "priorities are numbers"),
    ([0, 1], None, TypeError, "priorities are numbers"),
    ([0, 20], [1.0, 1.0], IndexError, "leaf 20 of a tree whose last is 19"),
    ([0, -1], 1.0, IndexError, "leaf -1"),
    (np.array([0, 2**64 - 1], np.uint64), 1.0, IndexError, "leaf 18446744073709551615"),
    ([0.0, 1.0], 1.0, TypeError, "integers"),
    ([True, False], 1.0, TypeError, "flatnonzero"),
    ("a", 1.0, TypeError, "integers"),
    (slice(3), 1.0, TypeError, "integers"),
]


@pytest.mark.parametrize(("indices", "values", "error", "match"), WRONG_UPDATES)
def test_an_update_that_is_refused_changes_nothing(
    indices: Any, values: Any, error: type[Exception], match: str, either: None
) -> None:
    tree = tree_of(some_leaves(20))
    before = words(tree)
    with pytest.raises(error, match=match):
        tree.update(indices, values)
    assert words(tree) == before
    if error is not PriorityError and "priorities" not in match:
        with pytest.raises(error, match=match):
            tree[indices]


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_no_sum_of_priorities_that_are_taken_overflows(capacity: int, either: None) -> None:
    tree = PriorityTree(capacity)
    tree.update(np.arange(capacity), LARGEST / 2 / capacity)
    assert tree.total < math.inf
    assert (tree.find(np.linspace(0, 1, 50) * tree.total)[[0, -1]] == [0, capacity - 1]).all()
    assert tree.draw(np.linspace(0, 1, 50)).max() == capacity - 1
    with pytest.raises(PriorityError):
        tree.update(0, LARGEST / capacity * 1.01)


def test_masses_and_random_numbers_out_of_range(either: None) -> None:
    tree = tree_of(np.ones(20))
    for wrong in (math.nan, -0.1, 20.1, math.inf, -math.inf):
        with pytest.raises(PriorityError, match=f"total of 20.0, and number 1 is {wrong}"):
            tree.find([1.0, wrong])
    for wrong in (math.nan, -1e-9, 1.1, math.inf):
        with pytest.raises(PriorityError, match=f"number 1 is {wrong}"):
            tree.draw([0.5, wrong])
    for wrong in (["1"], [1j], None):
        with pytest.raises(TypeError, match="are numbers"):
            tree.find(wrong)
        with pytest.raises(TypeError, match="are numbers"):
            tree.draw(wrong)
    assert (tree.find(np.array([0, 20], np.float32) * np.float32(1 + 1e-7)) == [0, 19]).all()


def test_nothing_to_sample(either: None) -> None:
    tree = PriorityTree(20)
    for _ in range(2):
        with pytest.raises(NothingToSampleError, match="update"):
            tree.find(0.0)
        with pytest.raises(NothingToSampleError, match="nothing to sample"):
            tree.draw([0.5, 0.2])
        tree.update(4, 1.0)
        assert tree.draw([0.5]) == 4
        tree.clear()


@pytest.mark.parametrize("capacity", [0, -3])
def test_a_tree_has_leaves(capacity: int) -> None:
    with pytest.raises(ValueError, match="one leaf"):
        PriorityTree(capacity)
    with pytest.raises(TypeError):
        PriorityTree(2.5)  # type: ignore[arg-type]  # which is what is tested


def test_memory_is_little_more_than_the_leaves() -> None:
    tree = PriorityTree(100_000)
    assert tree.capacity == 100_000
    assert 800_000 < tree.nbytes < 800_000 * 1.21


def test_pickles_and_states_are_the_leaves() -> None:
    leaves = some_leaves(5000)
    tree = tree_of(leaves)
    pickled = pickle.dumps(tree)
    assert len(pickled) < 8 * 5000 + 1000
    for other in (pickle.loads(pickled), copy.copy(tree), copy.deepcopy(tree)):
        assert words(other) == words(tree)
        other.update(0, 77.0)
        assert words(other) != words(tree)
    state = tree.state_dict()
    assert list(state) == ["priorities"]
    state["priorities"][:] = 0.0
    check(tree, leaves)


HOSTILE = [
    {},
    None,
    {"priorities": None},
    {"priorities": [1.0] * 20},
    {"priorities": np.ones(20, np.float32)},
    {"priorities": np.ones(20, object)},
    {"priorities": np.ones(19)},
    {"priorities": np.ones((20, 1))},
    *({"priorities": np.where(np.arange(20) == 7, wrong, 1.0)} for wrong in (math.nan, -1.0, math.inf, LARGEST)),
]


@pytest.mark.parametrize("state", HOSTILE)
def test_a_hostile_state_is_refused_and_changes_nothing(state: Any) -> None:
    tree = tree_of(some_leaves(20))
    before = words(tree)
    with pytest.raises(PriorityError):
        tree.load_state_dict(state)
    assert words(tree) == before


def test_negative_zeros_of_a_state_are_zeros() -> None:
    assert words(tree_of(np.full(20, -0.0))) == words(PriorityTree(20))


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("act", ["update", "load", "clear"])
def test_an_interrupted_change_is_made_as_a_whole_or_not_at_all(act: str) -> None:
    old, new = some_leaves(300, 1), some_leaves(300, 2)
    expected = {"update": new, "load": new, "clear": np.zeros(300)}[act]
    nth = 0
    while True:
        nth += 1
        with without_kernels():
            tree = tree_of(old)
            try:
                with Interruption(nth, interrupt) as point:
                    if act == "update":
                        tree.update(np.arange(300), new)
                    elif act == "load":
                        tree.load_state_dict({"priorities": new})
                    else:
                        tree.clear()
            except KeyboardInterrupt:
                pass
            leaves = tree[np.arange(300)]
            assert (leaves == old).all() or (leaves == expected).all(), point.where
            if nth % 2:
                tree.update(17, 3.0)
                leaves[17] = 3.0
            check_after_a_use(tree, leaves)
        if point.left > 0:
            break
    assert nth > 3


def check_after_a_use(tree: PriorityTree, leaves: np.ndarray) -> None:
    if leaves.any():
        assert (leaves[tree.draw(np.linspace(0, 1, 20))] > 0).all()
    else:
        assert tree.total == 0.0
    check(tree, leaves)


def test_a_handler_uses_the_tree_or_is_refused() -> None:
    old, new = some_leaves(300, 1), some_leaves(300, 2)
    refused = nth = 0
    while True:
        nth += 1
        tree = tree_of(old)

        def handler(tree: PriorityTree = tree) -> None:
            nonlocal refused
            try:
                tree.update([3, 4], 7.0)
            except BusyStoreError:
                refused += 1

        with without_kernels():
            with Interruption(nth, handler) as point:
                tree.update(np.arange(300), new)
                found = tree.find(np.linspace(0, tree.total * 0.99, 20))
            leaves = tree[np.arange(300)]
            assert (np.delete(leaves, [3, 4]) == np.delete(new, [3, 4])).all()
            assert (leaves[found] > 0).all() or (new[found] > 0).all()
            check_after_a_use(tree, leaves)
        if point.left > 0:
            break
    assert refused


@pytest.mark.parametrize("kernels", [True, False])
def test_threads_share_a_tree(kernels: bool) -> None:
    """Each call sees the tree as some call has left it: a total that no half of an update has."""
    tree = PriorityTree(3000)
    tree.update(np.arange(3000), 1.0)
    wrong: list[Any] = []

    def write(value: float) -> None:
        for _ in range(100):
            tree.update(np.arange(3000), value)

    def read() -> None:
        while any(thread.is_alive() for thread in writers):
            if tree.total not in (3000.0, 6000.0):
                wrong.append(tree.total)
            found = tree.draw(np.linspace(0, 1, 100))
            if (np.abs(found - np.linspace(0, 3000, 100)) > 31).any():
                wrong.append(found)

    writers = [threading.Thread(target=write, args=(value,)) for value in (1.0, 2.0)]
    reader = threading.Thread(target=read)
    with pytest.MonkeyPatch.context() as patch:
        if not kernels:
            patch.setattr("compressed_array.sampling._tree.native", lambda module: None)
        for thread in [*writers, reader]:
            thread.start()
        for thread in [*writers, reader]:
            thread.join()
    assert not wrong
    check(tree, np.full(3000, tree.max))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # forking beside threads is what is tested here
def test_a_child_inherits_a_tree_that_is_whole() -> None:
    tree, stop = PriorityTree(3000), threading.Event()

    def write() -> None:
        while not stop.is_set():
            tree.update(np.arange(3000), 1.0)
            tree.update(np.arange(3000), 2.0)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                is_right = tree.total in (0.0, 3000.0, 6000.0) and words(tree) == words(tree_of(tree[np.arange(3000)]))
                os._exit(0 if is_right else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()
