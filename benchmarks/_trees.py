"""Drawing by priority: a tree of priorities beside Tianshou's, and a whole buffer beside cpprb's.

    python -m benchmarks._trees speed tree
    python -m benchmarks._trees speed buffer

The last line it prints is JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks._measure import in_turns
from benchmarks._streams import Array
from compressed_array.sampling import PriorityTree

LEAVES, BATCH, LANES = 1_000_000, 256, 4
ROUNDS, CALLS = 41, 50
OBSERVATION, EPISODE = 8, 250  # floats, and steps


def segment_tree() -> Any:
    """Tianshou's tree alone: to import the package would import all that it depends on."""
    package = find_spec("tianshou")
    assert package is not None, "tianshou is not installed"
    assert package.origin is not None
    spec = spec_from_file_location("segtree", Path(package.origin).parent / "data" / "utils" / "segtree.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.SegmentTree(LEAVES)


def timed(call: Callable[..., Any], batches: list[tuple[Array, ...]]) -> float:
    """Seconds for one call."""
    fresh = [tuple(part.copy() for part in batch) for batch in batches]  # since some write to what they are given
    start = time.perf_counter()
    for batch in fresh:
        call(*batch)
    return (time.perf_counter() - start) / len(batches)


def tree() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    ours, theirs = PriorityTree(LEAVES), segment_tree()
    leaves, priorities = np.arange(LEAVES), rng.random(LEAVES) + 0.01
    ours.update(leaves, priorities)
    theirs[leaves] = priorities
    updates = [(rng.integers(0, LEAVES, BATCH), rng.random(BATCH) + 0.01) for _ in range(CALLS)]
    total = 0.99 * ours.total  # which updates change a little
    finds = [(total * rng.random(BATCH),) for _ in range(CALLS)]
    for batch in updates:
        ours.update(*batch)
        theirs[batch[0]] = batch[1]
    same = [ours.find(masses) == theirs.get_prefix_sum_idx(masses.copy()) for (masses,) in finds]
    assert np.mean(same) > 0.999, "what is found is not the same, up to round-off"
    found = {}
    for name, mine, other, batches in (
        ("update", ours.update, theirs.__setitem__, updates),
        ("find", ours.find, theirs.get_prefix_sum_idx, finds),
    ):
        found[name] = in_turns(partial(timed, mine, batches), partial(timed, other, batches), ROUNDS)
    return found


def steps() -> Iterator[dict[str, torch.Tensor]]:
    """Steps of environments with small vectors, without end: what follows is as it was some thousand steps before."""
    generator = torch.Generator().manual_seed(0)
    count = 40 * EPISODE
    observations = torch.randn((count + 1, LANES, OBSERVATION), generator=generator)
    observations[-1] = observations[0]
    actions = torch.randint(4, (count, LANES), generator=generator)
    rewards = torch.randn((count, LANES), generator=generator)
    for t in cycle(range(count)):
        is_last = torch.full((LANES,), t % EPISODE == EPISODE - 1)
        after = torch.zeros((LANES, OBSERVATION)) if is_last.all() else observations[t + 1]
        yield {
            "obs": observations[t],
            "action": actions[t],
            "reward": rewards[t],
            "terminated": is_last,
            "truncated": torch.zeros(LANES, dtype=torch.bool),
            "next_obs": after,
        }


class Ours:
    def __init__(self) -> None:
        from compressed_array_torch import PrioritizedReplayBuffer

        self.buffer = PrioritizedReplayBuffer(LEAVES // LANES, LANES, OBSERVATION, (), action_dtype=torch.int64)

    def add(self, step: dict[str, torch.Tensor]) -> None:
        self.buffer.add(**step)

    def learn(self, errors: torch.Tensor) -> torch.Tensor:
        """Draw a batch, and say how far off its values were; returns where it was drawn."""
        batch = self.buffer.get(BATCH, beta=0.4)
        self.buffer.update_priorities(batch.indices, errors)
        return batch.indices


class Cpprb:
    """cpprb's buffer, with what it gives turned into tensors, which costs nothing, and errors into arrays."""

    def __init__(self) -> None:
        from cpprb import PrioritizedReplayBuffer

        fields = {
            "obs": {"shape": OBSERVATION, "dtype": np.float32},
            "next_obs": {"shape": OBSERVATION, "dtype": np.float32},
            "action": {"dtype": np.int64},
            **{name: {"dtype": np.float32} for name in ("reward", "terminated", "truncated")},
        }
        self.buffer = PrioritizedReplayBuffer(LEAVES, fields, alpha=0.6)

    def add(self, step: dict[str, torch.Tensor]) -> None:
        self.buffer.add(**{name: part.numpy() for name, part in step.items()})

    def learn(self, errors: torch.Tensor) -> torch.Tensor:
        batch = {name: torch.from_numpy(part) for name, part in self.buffer.sample(BATCH, beta=0.4).items()}
        self.buffer.update_priorities(batch["indexes"].numpy(), errors.numpy())
        return batch["indexes"].to(torch.int64)


def buffer() -> dict[str, Any]:
    contenders = [(Ours(), steps()), (Cpprb(), steps())]
    for contender, source in contenders:
        for step in islice(source, LEAVES // LANES + 10):  # and a little round
            contender.add(step)
    generator = torch.Generator().manual_seed(1)

    def turn(contender: Any, source: Iterator[dict[str, torch.Tensor]]) -> float:
        # Not negative: cpprb would take the power of such an error, not of its size, and draw nothing but NaN after.
        given = [(next(source), torch.rand(BATCH, generator=generator)) for _ in range(CALLS)]
        start = time.perf_counter()
        for step, errors in given:
            contender.add(step)
            contender.learn(errors)
        return (time.perf_counter() - start) / CALLS

    ours, theirs = (partial(turn, *contender) for contender in contenders)
    for _ in range(20):  # priorities as they are after some training
        ours(), theirs()
    for contender, _ in contenders:
        drawn = torch.stack([contender.learn(torch.rand(BATCH, generator=generator)) for _ in range(20)])
        assert len(drawn.unique()) > 0.9 * drawn.numel(), "what is drawn is not spread over what is held"
    return {"learn": in_turns(ours, theirs, ROUNDS)}


if __name__ == "__main__":
    _, what = sys.argv[1:]
    print(json.dumps({"tree": tree, "buffer": buffer}[what]()))
