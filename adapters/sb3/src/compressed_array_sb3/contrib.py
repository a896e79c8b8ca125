"""sb3-contrib's rollout buffers, compressed, `RecurrentPPO` with them, and `QRDQN` with prioritized replay.

Needs the extra `contrib`.
"""

from __future__ import annotations

from typing import Any

from gymnasium import spaces
from sb3_contrib import QRDQN, RecurrentPPO
from sb3_contrib.common.maskable.buffers import MaskableDictRolloutBuffer, MaskableRolloutBuffer
from sb3_contrib.common.recurrent.buffers import RecurrentDictRolloutBuffer, RecurrentRolloutBuffer

from compressed_array_sb3.prioritized_dqn import PrioritizedLearning
from compressed_array_sb3.rollout import CompressedRollout

__all__ = [
    "CompressedMaskableDictRolloutBuffer",
    "CompressedMaskableRolloutBuffer",
    "CompressedRecurrentDictRolloutBuffer",
    "CompressedRecurrentPPO",
    "CompressedRecurrentRolloutBuffer",
    "PrioritizedQRDQN",
]


class CompressedRecurrentRolloutBuffer(CompressedRollout, RecurrentRolloutBuffer):  # type: ignore[misc]  # contrib hides what its add takes
    """`RecurrentRolloutBuffer` in a fraction of the memory.

    It takes all arguments of `CompressedBuffer`.
    """


class CompressedRecurrentDictRolloutBuffer(CompressedRollout, RecurrentDictRolloutBuffer):  # type: ignore[misc]  # contrib hides what its add takes
    """`RecurrentDictRolloutBuffer` in a fraction of the memory.

    It takes all arguments of `CompressedBuffer`.
    """


class CompressedMaskableRolloutBuffer(CompressedRollout, MaskableRolloutBuffer):  # type: ignore[misc]  # contrib hides what its add takes
    """`MaskableRolloutBuffer` in a fraction of the memory.

    It takes all arguments of `CompressedBuffer`.
    """


class CompressedMaskableDictRolloutBuffer(CompressedRollout, MaskableDictRolloutBuffer):  # type: ignore[misc]  # contrib hides what its add takes
    """`MaskableDictRolloutBuffer` in a fraction of the memory.

    It takes all arguments of `CompressedBuffer`.
    """


class CompressedRecurrentPPO(RecurrentPPO):
    """`RecurrentPPO` with a compressed buffer; sb3-contrib's own class gives no choice of buffer.

    Args:
        rollout_buffer_kwargs: Options of the buffer, as PPO has them: `{"codec": "delta-zstd"}`.
    """

    def __init__(self, *args: Any, rollout_buffer_kwargs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        asked = kwargs.get("_init_setup_model", True)
        super().__init__(*args, **kwargs | {"_init_setup_model": False})
        # Only now: the constructor of RecurrentPPO sets this option of on-policy algorithms to an empty one.
        self.rollout_buffer_kwargs = dict(rollout_buffer_kwargs or {})
        if asked:
            self._setup_model()

    def _setup_model(self) -> None:
        steps, self.n_steps = self.n_steps, 1  # the stock buffer is made as well, so let it be small
        try:
            super()._setup_model()
        finally:
            self.n_steps = steps
        is_dict = isinstance(self.observation_space, spaces.Dict)
        buffer_class = CompressedRecurrentDictRolloutBuffer if is_dict else CompressedRecurrentRolloutBuffer
        lstm: Any = self.policy.lstm_actor
        self.rollout_buffer = buffer_class(
            steps,
            self.observation_space,
            self.action_space,
            (steps, lstm.num_layers, self.n_envs, lstm.hidden_size),
            self.device,
            gamma=self.gamma,
            gae_lambda=self.gae_lambda,
            n_envs=self.n_envs,
            **self.rollout_buffer_kwargs,
        )


class PrioritizedQRDQN(PrioritizedLearning, QRDQN):
    """`QRDQN` with prioritized replay: a transition's priority is its last quantile Huber loss.

    That loss tells how far the two distributions are apart; the TD error would compare nothing but their means.

    Args:
        alpha: How much priorities count: 0.6 by default, 0 for not at all.
        beta: How much the weights in the loss correct for that: like a learning rate, a number or a function of the
            progress remaining, which goes from 1 to 0. By default it rises from 0.4 to 1 over the training.
        epsilon: What is added to each error: 1e-6 by default.

    All other arguments are those of `QRDQN`.
    """
