"""Around training: Atari environments, filling a replay buffer before it starts, and evaluating a model.

`atari.make_env`, `buffer_warmup.warm_up`, `eval_model.eval_model` and `eval_model.report`, each in the module where
sb3-extra-buffers has it.
"""

__all__ = ["atari", "buffer_warmup", "eval_model"]
