"""SB3's DQN with prioritized replay: its own code trains, on batches drawn by priority and with a weighted loss."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from gymnasium import spaces
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.utils import LinearSchedule

from compressed_array_sb3._priority_arguments import beta_at, split_options
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

# `beta` rises over the whole of a training, as the inventors of prioritized replay have it.
DEFAULTS: dict[str, Any] = {"alpha": 0.6, "beta": LinearSchedule(0.4, 1.0, 1.0), "epsilon": 1e-6}


class PrioritizedLearning(OffPolicyAlgorithm):
    """What algorithms with prioritized replay share. It comes before one of SB3's in a list of bases.

    Args:
        alpha: How much priorities count: 0.6 by default, 0 for not at all.
        beta: How much the weights in the loss correct for that: like a learning rate, a number or a function of the
            progress remaining, which goes from 1 to 0. By default it rises from 0.4 to 1 over the training.
        epsilon: What is added to each error: 1e-6 by default. The smaller it is, the smaller a loss becomes as
            `beta` goes to 1, as `PrioritizedReplay` says; `train/mean_weight` in the log shows by how much.

    All other arguments are the algorithm's own. Without a `replay_buffer_class`, the prioritized one for its
    observations and `n_steps` is chosen. `replay_buffer_kwargs` may have `codec`, and also the three above.
    """

    def __init__(
        self,
        *args: Any,
        alpha: float | None = None,
        beta: float | Callable[[float], float] | None = None,
        epsilon: float | None = None,
        **kwargs: Any,
    ) -> None:
        asked = kwargs.get("_init_setup_model", True)
        super().__init__(*args, **kwargs | {"_init_setup_model": False})
        # Here, and not in the buffer's options: so `load` can replace each, and a schedule need not be pickled with a
        # buffer.
        told, rest = split_options({"alpha": alpha, "beta": beta, "epsilon": epsilon}, self.replay_buffer_kwargs)
        options = DEFAULTS | told
        self.alpha, self.beta, self.epsilon = (options[name] for name in DEFAULTS)
        self.replay_buffer_kwargs = rest
        if asked:
            self._setup_model()

    @classmethod
    def load(
        cls,
        path: str | Path | io.BufferedIOBase,
        env: Any = None,
        device: Any = "auto",
        custom_objects: dict[str, Any] | None = None,
        print_system_info: bool = False,
        force_reset: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Loads a model as SB3 does, with `alpha`, `beta` and `epsilon` as arguments or in `replay_buffer_kwargs`.

        Args:
            path: What `save` wrote: a path, or an open file.
            env: The environment to train in; by default that of the file, if it has one.
            device: Where the networks are to be.
            custom_objects: Replacements for objects of the file, by name; those of the file are then not read.
            print_system_info: Whether to print what the file was written with, and what is here.
            force_reset: Whether the environment is reset before training goes on in it.
            kwargs: Attributes of the model to override.
        """
        # The file has these three as attributes of the model, which would prevail over those in replay_buffer_kwargs.
        options = {**(custom_objects or {}), **kwargs}.get("replay_buffer_kwargs")
        told, rest = split_options({name: kwargs.pop(name, None) for name in DEFAULTS}, options or {})
        if options is not None:
            kwargs["replay_buffer_kwargs"] = rest
        return super().load(path, env, device, custom_objects, print_system_info, force_reset, **kwargs | told)

    def _setup_model(self) -> None:
        own = {"alpha": self.alpha, "beta": beta_at(self.beta, 1.0), "epsilon": self.epsilon}
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
                f"{chosen.__name__}: leave it out to have one chosen, or load a file with replay_buffer_class=None"
            )
        steps = self.n_steps
        if self.replay_buffer_kwargs.get("n_steps") == steps:
            self.n_steps = 1  # or SB3 warns that it does not pass n_steps on to a buffer class that it did not choose
        try:
            super()._setup_model()
        finally:
            self.n_steps = steps

    def load_replay_buffer(self, path: str | Path | io.BufferedIOBase, truncate_last_traj: bool = True) -> None:
        """Loads a replay buffer as SB3 does, and converts its priorities to this model's `alpha` and `epsilon`."""
        super().load_replay_buffer(path, truncate_last_traj)
        buffer: Any = self.replay_buffer
        if isinstance(buffer, PrioritizedReplay):
            buffer.set_exponents(self.alpha, self.epsilon)

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        buffer: Any = self.replay_buffer
        if not isinstance(buffer, PrioritizedReplay):
            raise BufferClassError(
                f"{type(self).__name__} learns from a prioritized buffer, and this is a {type(buffer).__name__}; one "
                "in a file becomes one by compressed_array_sb3.load_replay_buffer(model, path)"
            )
        buffer.beta = beta_at(self.beta, self._current_progress_remaining)
        training = WeightedTraining(buffer)
        training.during(super().train, gradient_steps, batch_size)
        self.logger.record("train/beta", buffer.current_beta)
        self.logger.record("train/mean_weight", training.mean_weight)
        self.logger.record("train/max_priority", buffer.priorities.max)


class PrioritizedDQN(PrioritizedLearning, DQN):
    """`DQN` with prioritized replay: a transition's priority is its last absolute TD error.

    Args:
        alpha: How much priorities count: 0.6 by default, 0 for not at all.
        beta: How much the weights in the loss correct for that: like a learning rate, a number or a function of the
            progress remaining, which goes from 1 to 0. By default it rises from 0.4 to 1 over the training.
        epsilon: What is added to each error: 1e-6 by default.

    All other arguments are those of `DQN`.

    >>> from compressed_array_sb3 import PrioritizedDQN
    >>> model = PrioritizedDQN("MlpPolicy", "CartPole-v1", buffer_size=100, learning_starts=10, device="cpu")
    >>> model = model.learn(20)
    >>> model.replay_buffer.size(), model.replay_buffer.priorities.total > 0
    (20, True)
    """


def buffer_class(space: spaces.Space[Any], n_steps: int) -> type[ReplayBuffer]:
    """Returns the prioritized buffer for observations of a space, as SB3 chooses among its own."""
    if isinstance(space, spaces.Dict):
        return CompressedPrioritizedDictNStepReplayBuffer if n_steps > 1 else CompressedPrioritizedDictReplayBuffer
    return CompressedPrioritizedNStepReplayBuffer if n_steps > 1 else CompressedPrioritizedReplayBuffer
