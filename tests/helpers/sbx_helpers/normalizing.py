"""`VecNormalize` as a sample needs it: with statistics of some steps, and without environments."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from sb3_helpers.experience import play
from sbx_helpers.spaces import BOX


class NoVecEnv(DummyVecEnv):
    """Spaces without environments, all that VecNormalize needs to normalize a sample."""

    def __init__(self, space: Any, n_envs: int) -> None:
        super(DummyVecEnv, self).__init__(n_envs, space, BOX)

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [None] * self.num_envs


def normalizing(space: spaces.Space[Any], n_envs: int) -> VecNormalize:
    """Of a Dict, the first two keys with numbers that have no bounds are normalized."""
    keys = None
    if isinstance(space, spaces.Dict):
        keys = [key for key, part in space.items() if isinstance(part, spaces.Box) and not part.is_bounded()][:2]
    env: Any = VecNormalize(NoVecEnv(space, n_envs), norm_obs_keys=keys)
    for step in play(space, BOX, n_envs, 20):
        if keys is None:
            env.obs_rms.update(step.obs)
        for key in keys or ():
            env.obs_rms[key].update(step.obs[key])
        env.ret_rms.update(step.reward)
    return env
