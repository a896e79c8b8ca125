"""Windows against a list of all steps that ever were, looked through from end to end."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compressed_array.errors import NothingToSampleError
from compressed_array.sampling import Ring, WindowBatch, Windows

BOUNDARIES = ("stop", "pad", "cross")


@dataclass
class Step:
    """One step of all lanes: where episodes end with it, and where they begin if it follows none."""

    ends: list[bool]
    begins: list[bool] | None = None


@dataclass
class AllSteps:
    """Every step that was added, and the windows among those that are held, by looking."""

    capacity: int
    lanes: int
    length: int
    boundary: str
    steps: list[Step] = field(default_factory=list)
    cleared: int = 0
    gone: int = 0  # steps that a failed write has cost, the oldest ones

    def begins(self, step: int, lane: int) -> bool:
        begins = self.steps[step].begins
        if begins is not None:
            return begins[lane]
        return step == self.cleared or self.steps[step - 1].ends[lane]

    def follows(self, step: int, lane: int) -> bool:
        """Whether a window may go on from the step before to this one."""
        if self.steps[step].begins is not None:
            return False
        return self.boundary == "cross" or not self.begins(step, lane)

    def windows(self) -> dict[tuple[int, int], int]:
        """The first steps of all windows, by step and lane, and how many of their steps are valid."""
        found = {}
        oldest = max(self.cleared, self.gone, len(self.steps) - self.capacity)
        for first in range(oldest, len(self.steps)):
            for lane in range(self.lanes):
                valid = 1
                while valid < self.length and first + valid < len(self.steps) and self.follows(first + valid, lane):
                    valid += 1
                if valid == self.length or self.boundary == "pad":
                    found[first, lane] = valid
        return found


def number_of(ring: Ring, step: int, lane: int, oracle: AllSteps) -> int:
    """The number that a ring gives to one of the oracle's steps: it leaves some out when it is cleared."""
    return (ring.steps - (len(oracle.steps) - step)) * ring.lanes + lane


def check(ring: Ring, windows: Windows, oracle: AllSteps) -> None:
    expected = {number_of(ring, *at, oracle): (*at, valid) for at, valid in oracle.windows().items()}
    assert windows.count == len(expected)
    if not expected:
        with pytest.raises(NothingToSampleError):
            windows.draw(np.arange(3))
        return
    # As many numbers in a row as there are windows pick each of them once.
    batch = windows.draw(np.arange(len(expected)) + 5 * len(expected))
    assert sorted(batch.numbers[:, 0].tolist()) == sorted(expected)
    assert np.array_equal(batch.positions, ring.positions(batch.numbers))
    for numbers, is_valid, is_first, _ in zip(*batch, strict=True):
        step, lane, valid = expected[int(numbers[0])]
        assert is_valid.tolist() == [i < valid for i in range(oracle.length)]
        last = valid - 1
        assert numbers.tolist() == [number_of(ring, step + min(i, last), lane, oracle) for i in range(oracle.length)]
        firsts = [i < valid and oracle.begins(step + i, lane) for i in range(oracle.length)]
        assert is_first.tolist() == firsts
        assert ring.is_held(numbers).all()


@st.composite
def histories(draw: st.DrawFn) -> tuple[AllSteps, list[Step | str]]:
    lanes, capacity = draw(st.integers(1, 3)), draw(st.integers(1, 9))
    flags = st.lists(st.booleans(), min_size=lanes, max_size=lanes)
    step = st.builds(Step, flags, st.one_of(st.none(), st.none(), st.none(), flags))
    events = st.lists(st.one_of(step, step, step, step, st.sampled_from(["clear", "save", "interrupt"])), max_size=30)
    length, boundary = draw(st.integers(1, capacity)), draw(st.sampled_from(BOUNDARIES))
    return AllSteps(capacity, lanes, length, boundary), draw(events)


@given(histories())
def test_windows_are_those_that_are_found_by_looking(history: tuple[AllSteps, list[Step | str]]) -> None:
    oracle, events = history
    ring = Ring(oracle.capacity, oracle.lanes)
    windows = Windows(ring, oracle.length, oracle.boundary)
    for event in events:
        if isinstance(event, Step):
            windows.append(event.ends, begins=event.begins)
            ring.advance()
            oracle.steps.append(event)
        elif event == "clear":
            ring.clear()
            windows.clear()
            oracle.cleared = len(oracle.steps)
        elif event == "interrupt":  # an interrupt after the windows know of a step, and before the ring counts it
            windows.append([True] * oracle.lanes)
            oracle.gone = len(oracle.steps) + 1 - oracle.capacity
        else:
            saved = pickle.dumps((ring.state_dict(), windows.state_dict()))
            ring = Ring(oracle.capacity, oracle.lanes)
            windows = Windows(ring, oracle.length, oracle.boundary)
            for part, state in zip((ring, windows), pickle.loads(saved), strict=True):
                part.load_state_dict(state)
        check(ring, windows, oracle)


def test_each_window_is_drawn_as_often() -> None:
    rng, ring = np.random.default_rng(0), Ring(50, 3)
    windows = Windows(ring, 4)
    for _ in range(180):
        windows.append(rng.random(3) < 0.15)
        ring.advance()
    drawn = windows.draw(rng.integers(2**62, size=200 * windows.count)).numbers[:, 0]
    counts = np.unique(drawn, return_counts=True)[1]
    assert len(counts) == windows.count
    # A chi-square statistic of so many degrees of freedom, six deviations above its mean.
    statistic = ((counts - 200) ** 2 / 200).sum()
    assert statistic < windows.count + 6 * np.sqrt(2 * windows.count)


def test_a_full_ring_draws_the_same_positions_wherever_it_is() -> None:
    ring, words = Ring(5, 2), np.random.default_rng(0).integers(2**62, size=40)
    ring.advance(5)
    first = ring.draw(words)
    ring.advance(3)
    np.testing.assert_array_equal(ring.draw(words), first)
    assert ring.is_held(ring.number_at(first)).all()


def test_what_a_failed_write_has_cost_is_not_drawn() -> None:
    ring = Ring(4)
    ring.advance(6)
    ring.make_room()
    assert sorted(ring.number_at(ring.draw(np.arange(3)))) == [3, 4, 5]


def test_scalars_stand_for_all_lanes() -> None:
    ring = Ring(5, 2)
    windows = Windows(ring, 2)
    for has_ended in (False, True, False):
        windows.append(has_ended)
        ring.advance()
    assert windows.draw(np.arange(2)).numbers.tolist() == [[0, 2], [1, 3]]


def test_numbers_of_steps_that_are_gone_are_known() -> None:
    ring = Ring(4, 2)
    ring.advance(3)
    early = ring.number_at(ring.draw(np.arange(6)))
    assert early.tolist() == [0, 1, 2, 3, 4, 5]
    assert ring.is_held(early).all()
    ring.advance(3)
    assert ring.is_held(early).tolist() == [False] * 4 + [True] * 2
    assert ring.positions(np.array([4, 8, 11])).tolist() == [4, 0, 3]
    assert ring.number_at(np.arange(8)).tolist() == [8, 9, 10, 11, 4, 5, 6, 7]
    ring.clear()
    assert (len(ring), ring.row, ring.steps) == (0, 0, 8)
    assert not ring.is_held(np.arange(20)).any()


@pytest.mark.parametrize("length", [0, -1, 6])
def test_a_length_that_no_window_has_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="as many as the ring has rows, 5"):
        Windows(Ring(5), length)


def test_an_unknown_boundary_is_refused() -> None:
    with pytest.raises(ValueError, match="'stop', 'pad', 'cross', not 'wrap'"):
        Windows(Ring(5), 2, "wrap")  # type: ignore[arg-type]


@pytest.mark.parametrize(("capacity", "lanes"), [(0, 1), (1, 0), (-3, 2)])
def test_a_ring_without_room_is_refused(capacity: int, lanes: int) -> None:
    with pytest.raises(ValueError, match="at least one row and one lane"):
        Ring(capacity, lanes)


@pytest.mark.parametrize("change", [{"capacity": 5}, {"lanes": 3}, {"steps": 99}, {"oldest": -1}])
def test_the_state_of_another_ring_is_refused(change: dict[str, int]) -> None:
    ring = Ring(4, 2)
    ring.advance(3)
    with pytest.raises(ValueError, match="ring of"):
        Ring(4, 2).load_state_dict(ring.state_dict() | change)


def test_the_state_of_other_windows_is_refused() -> None:
    state = Windows(Ring(4, 2), 2).state_dict()
    with pytest.raises(ValueError, match="not the state of windows"):
        Windows(Ring(4, 3), 2).load_state_dict(state)


def test_a_batch_says_what_it_has() -> None:
    assert WindowBatch._fields == ("numbers", "is_valid", "is_first", "positions")


@pytest.mark.parametrize("before", range(9))
@pytest.mark.parametrize("steps", range(1, 5))
def test_the_next_rows_are_those_that_steps_come_to(before: int, steps: int) -> None:
    ring = Ring(4, 2)
    ring.advance(before)
    rows = [row for part in ring.next_rows(steps) for row in range(part.start, part.stop)]
    for row in rows:
        assert row == ring.row
        ring.advance()
    assert len(rows) == steps
