"""SB3's DQN with prioritized replay: its own code trains, and what it draws and learns goes by priorities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gymnasium import spaces
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.utils import LinearSchedule

from compressed_array_sb3._weighted_loss import WeightedTraining
from compressed_array_sb3.errors import BufferClassError
from compressed_array_sb3.prioritized import (
    CompressedPrioritizedDictNStepReplayBuffer,
    CompressedPrioritizedDictReplayBuffer,
    CompressedPrioritizedNStepReplayBuffer,
    CompressedPrioritizedReplayBuffer,
    PrioritizedReplay,
)

__all__ = ["PrioritizedDQN", "PrioritizedLearning"]

BETA = LinearSchedule(0.4, 1.0, 1.0)  # over the whole of a training, as its inventors have it


class PrioritizedLearning(OffPolicyAlgorithm):
    """What algorithms with prioritized replay share. It comes before one of SB3's in a list of bases.

    Args:
        alpha: How much priorities count; 0 for not at all.
        beta: How much the weights in the loss correct for that; as a learning rate, a number or a function of the
            progress remaining.
        epsilon: What is added to each error.

    All other arguments are the algorithm's own. Without a `replay_buffer_class`, the prioritized one for its
    observations and `n_steps` is taken; `replay_buffer_kwargs` may have `codec` and the three above.
    """

    def __init__(
        self,
        *args: Any,
        alpha: float = 0.6,
        beta: float | Callable[[float], float] = BETA,
        epsilon: float = 1e-6,
        **kwargs: Any,
    ) -> None:
        asked = kwargs.get("_init_setup_model", True)
        super().__init__(*args, **kwargs | {"_init_setup_model": False})
        # Here, and not in the buffer's options: `load` replaces what is told anew, and a schedule need not be pickled
        # with a buffer.
        options = {"alpha": alpha, "beta": beta, "epsilon": epsilon} | self.replay_buffer_kwargs
        self.alpha, self.beta, self.epsilon = (options.pop(name) for name in ("alpha", "beta", "epsilon"))
        self.replay_buffer_kwargs = options
        if asked:
            self._setup_model()

    def _setup_model(self) -> None:
        own = {"alpha": self.alpha, "beta": self._beta_at(1.0), "epsilon": self.epsilon}
        self.replay_buffer_kwargs = self.replay_buffer_kwargs | own
        chosen: Any = self.replay_buffer_class
        if chosen is None:
            self.replay_buffer_class = buffer_class(self.observation_space, self.n_steps)
            if self.n_steps > 1:
                options = {"n_steps": self.n_steps, "gamma": self.gamma}
                self.replay_buffer_kwargs = options | self.replay_buffer_kwargs
        elif issubclass(chosen, ReplayBuffer) and not issubclass(chosen, PrioritizedReplay):
            raise BufferClassError(
                f"{type(self).__name__} takes a replay_buffer_class with Prioritized in its name, and not "
                f"{chosen.__name__}: leave it out to have one chosen"
            )
        steps = self.n_steps
        if self.replay_buffer_kwargs.get("n_steps") == steps:
            self.n_steps = 1  # or SB3 warns that a buffer which it did not choose is not told of them
        try:
            super()._setup_model()
        finally:
            self.n_steps = steps

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        buffer: Any = self.replay_buffer
        if not isinstance(buffer, PrioritizedReplay):
            raise BufferClassError(
                f"{type(self).__name__} learns from a prioritized buffer, and this is a {type(buffer).__name__}; one "
                "of SB3 that was loaded from a file becomes one by compressed_array_sb3.load_replay_buffer(model, path)"
                ", but a compressed one without priorities does not"
            )
        buffer.beta = self._beta_at(self._current_progress_remaining)
        training = WeightedTraining(buffer)
        training.during(super().train, gradient_steps, batch_size)
        self.logger.record("train/beta", buffer.current_beta)
        self.logger.record("train/mean_weight", training.mean_weight)
        self.logger.record("train/max_priority", buffer.priorities.max)

    def _beta_at(self, progress_remaining: float) -> float:
        beta: float = self.beta(progress_remaining) if callable(self.beta) else self.beta
        return beta


class PrioritizedDQN(PrioritizedLearning, DQN):
    """`DQN` with prioritized replay: a transition's priority is its last absolute TD error."""


def buffer_class(space: spaces.Space[Any], n_steps: int) -> type[ReplayBuffer]:
    """Returns the prioritized buffer for observations of a space, as SB3 chooses among its own."""
    if isinstance(space, spaces.Dict):
        return CompressedPrioritizedDictNStepReplayBuffer if n_steps > 1 else CompressedPrioritizedDictReplayBuffer
    return CompressedPrioritizedNStepReplayBuffer if n_steps > 1 else CompressedPrioritizedReplayBuffer
