"""`StatsTracker`, and the programs that the buffers were asked for with."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import compressed_array_torch as cat
from compressed_array_torch import ReplayBuffer, RolloutBuffer, StatsTracker, StepError


def test_episodes_are_added_up() -> None:
    tracker = StatsTracker(2, "Train", extra_metrics_keys=["score"], done_reason_keys=["won", "lost"])
    assert tracker.get_statistics() == {}
    tracker.update([False, False], [1.0, 2.0], {"score": [10, 20]})
    tracker.update(np.array([True, False]), torch.tensor([3.0, 4.0]), {"score": torch.tensor([1, 2])}, ["won", None])
    tracker.update(torch.tensor([True, True]), np.array([[1.0, 1.0], [2.0, 3.0]]), None, ["lost", "won"])
    assert tracker.trajectory_num == 3
    assert tracker.get_raw_values()["rewards"].tolist() == [4.0, 2.0, 11.0]
    statistics = tracker.get_statistics()
    assert statistics["Train/rewards"] == pytest.approx(17 / 3)
    assert statistics["Train/rewards_min"] == 2.0
    assert statistics["Train/rewards_max"] == 11.0
    assert statistics["Train/rewards_std"] == pytest.approx(np.std([4, 2, 11]))
    assert statistics["Train/lengths"] == pytest.approx(2.0)
    assert statistics["Train/Step/rewards"] == pytest.approx(17 / 6)
    assert statistics["Train/Step/score"] == pytest.approx(33 / 6)
    assert statistics["Train/Done/won_rate"] == pytest.approx(2 / 3)
    assert statistics["Train/Done/lost_rate"] == pytest.approx(1 / 3)
    tracker.reset()
    assert (tracker.get_statistics(), tracker.trajectory_num) == ({}, 0)


def test_only_the_last_episodes_are_kept() -> None:
    tracker = StatsTracker(1, max_ep_info_buffer=3)
    for reward in range(10):
        tracker.update([True], [reward])
    assert tracker.get_raw_values()["rewards"].tolist() == [7.0, 8.0, 9.0]
    assert tracker.trajectory_num == 10


def test_a_step_of_another_size_is_refused() -> None:
    tracker = StatsTracker(2)
    with pytest.raises(StepError, match="there are 2 environments"):
        tracker.update([True], [1.0, 2.0])
    with pytest.raises(StepError, match="done_reasons has 1"):
        tracker.update([True, True], [1.0, 2.0], None, ["won"])
    assert tracker.get_raw_values()["rewards"].tolist() == []


def test_buffers_tell_their_tracker() -> None:
    tracker, flags = StatsTracker(2, done_reason_keys=["time"]), torch.zeros(2)
    replay = ReplayBuffer(5, 2, (3,), (), tracker)
    obs = torch.zeros(2, 3)
    replay.add(
        obs,
        flags,
        flags + 1,
        terminated=flags,
        truncated=torch.tensor([1, 0]),
        next_obs=obs,
        done_reasons=["time", None],
    )
    replay.update_stats([False, True], [0.0, 4.0])
    assert tracker.get_raw_values()["rewards"].tolist() == [1.0, 5.0]
    assert tracker.get_statistics()["Rollout/Done/time_rate"] == 0.5
    replay.reset(reset_stats=True)
    assert tracker.trajectory_num == 0
    rollout = RolloutBuffer(5, 2, (3,), (), tracker)
    rollout.add(obs, flags, flags + 2, torch.tensor([True, False]), flags, flags)
    assert tracker.get_raw_values()["rewards"].tolist() == [2.0]


PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.parametrize("program", sorted(PROGRAMS.glob("*.py")), ids=lambda path: path.stem)
def test_programs_written_for_rl_buffer_run_with_the_import_changed(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    runpy.run_path(str(program))
    printed = capsys.readouterr().out
    assert "Statistics" in printed
    if program.stem == "replay":
        assert "Current size: 1000" in printed
        assert "Rollout/rewards: " in printed
        assert "torch.Size([64, 16])" in printed
    else:
        assert printed.count("Trained on 16 mini-batches.") == 4
        assert "No complete episodes" in printed


def test_the_package_needs_torch_and_the_core_alone() -> None:
    assert not {"gymnasium", "stable_baselines3"} & sys.modules.keys()


def test_the_public_names_are_these() -> None:
    names = {name for name in vars(cat) if not name.startswith("_") and name[0].isupper()}
    assert names == {
        "BaseBuffer",
        "BufferFullError",
        "BufferOptionError",
        "BufferStateError",
        "BusyBufferError",
        "Field",
        "NothingToSampleError",
        "PrioritizedReplayBatch",
        "PrioritizedReplayBuffer",
        "ReplayBatch",
        "ReplayBuffer",
        "ResetStrategy",
        "RolloutBatch",
        "RolloutBuffer",
        "SequenceBatch",
        "SequenceReplayBuffer",
        "SharedPrioritizedReplayBuffer",
        "SharedReplayBuffer",
        "SharedSequenceReplayBuffer",
        "StatsTracker",
        "StepError",
        "Writer",
        "WriterClosedError",
        "WriterLostWarning",
    }
