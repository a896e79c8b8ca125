"""The zoo's settings of PPO for Atari, and the three last entries.

The zoo does not evaluate a `rollout_buffer_class` in a yml, and takes a file of Python in its place.
"""

from compressed_array_sb3 import CompressedRolloutBuffer

hyperparams = {
    "atari": {
        "env_wrapper": ["stable_baselines3.common.atari_wrappers.AtariWrapper"],
        "frame_stack": 4,
        "policy": "CnnPolicy",
        "n_envs": 8,
        "n_timesteps": 1e7,
        "n_steps": 128,
        "n_epochs": 4,
        "batch_size": 256,
        "learning_rate": "lin_2.5e-4",
        "clip_range": "lin_0.1",
        "vf_coef": 0.5,
        "ent_coef": 0.01,
        "rollout_buffer_class": CompressedRolloutBuffer,
        "rollout_buffer_kwargs": {"codec": "auto"},
        "callback": "compressed_array_sb3.BufferStatsCallback",
    }
}
