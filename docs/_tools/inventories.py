"""Writes the small inventories by which pages link to the documentation of numpy, torch, SB3 and gymnasium.

    python docs/_tools/inventories.py [FOLDER]

Sphinx would fetch whole inventories at every build, and a build without a network would fail. These name only what the
pages and the docstrings speak of, so a build needs nothing but this repository; the links lead to the sites as ever.
"""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "_inventories"

_NUMPY = "reference/generated/{name}.html#{name}"
_DQN = "modules/dqn.html#{name}"
_CALLBACKS = "guide/callbacks.html#{name}"
_VEC_ENVS = "guide/vec_envs.html#{name}"
# For each project: where it is, and of each name its role and its page, where {name} is the name.
PROJECTS: dict[str, tuple[str, dict[str, tuple[str, str]]]] = {
    "python": (
        "https://docs.python.org/3/",
        {
            "pickle": ("py:module", "library/pickle.html#module-pickle"),
            "collections.abc.Mapping": ("py:class", "library/collections.abc.html#{name}"),
            "collections.abc.Sequence": ("py:class", "library/collections.abc.html#{name}"),
            "collections.abc.Iterator": ("py:class", "library/collections.abc.html#{name}"),
            "collections.abc.Callable": ("py:class", "library/collections.abc.html#{name}"),
            "pathlib.Path": ("py:class", "library/pathlib.html#{name}"),
        },
    ),
    "numpy": (
        "https://numpy.org/doc/stable/",
        {
            "numpy.ndarray": ("py:class", _NUMPY),
            "numpy.dtype": ("py:class", _NUMPY),
            "numpy.save": ("py:function", _NUMPY),
            "numpy.load": ("py:function", _NUMPY),
            "numpy.asarray": ("py:function", _NUMPY),
            "numpy.concatenate": ("py:function", _NUMPY),
            "numpy.random.Generator": ("py:class", "reference/random/generator.html#{name}"),
            "numpy.typing.ArrayLike": ("py:data", "reference/typing.html#{name}"),
            "numpy.typing.DTypeLike": ("py:data", "reference/typing.html#{name}"),
            "numpy.typing.NDArray": ("py:data", "reference/typing.html#{name}"),
        },
    ),
    "torch": (
        "https://docs.pytorch.org/docs/stable/",
        {
            "torch.Tensor": ("py:class", "tensors.html#{name}"),
            "torch.Generator": ("py:class", "generated/{name}.html#{name}"),
            "torch.device": ("py:class", "tensor_attributes.html#{name}"),
            "torch.dtype": ("py:class", "tensor_attributes.html#{name}"),
            "torch.load": ("py:function", "generated/{name}.html#{name}"),
            "torch.save": ("py:function", "generated/{name}.html#{name}"),
            "torch.utils.data.DataLoader": ("py:class", "data.html#{name}"),
        },
    ),
    "stable_baselines3": (
        "https://stable-baselines3.readthedocs.io/en/master/",
        {
            "stable_baselines3.dqn.DQN": ("py:class", _DQN),
            "stable_baselines3.ppo.PPO": ("py:class", "modules/ppo.html#{name}"),
            "stable_baselines3.her.HerReplayBuffer": ("py:class", "modules/her.html#{name}"),
            "stable_baselines3.common.callbacks.BaseCallback": ("py:class", _CALLBACKS),
            "stable_baselines3.common.callbacks.CheckpointCallback": ("py:class", _CALLBACKS),
            "stable_baselines3.common.vec_env.SubprocVecEnv": ("py:class", _VEC_ENVS),
            "stable_baselines3.common.vec_env.VecNormalize": ("py:class", _VEC_ENVS),
        },
    ),
    "gymnasium": (
        "https://gymnasium.farama.org/",
        {
            "gymnasium.Env": ("py:class", "api/env/#{name}"),
            "gymnasium.Wrapper": ("py:class", "api/wrappers/#{name}"),
            "gymnasium.spaces.Box": ("py:class", "api/spaces/fundamental/#{name}"),
            "gymnasium.spaces.Dict": ("py:class", "api/spaces/composite/#{name}"),
            "gymnasium.spaces.Discrete": ("py:class", "api/spaces/fundamental/#{name}"),
        },
    ),
}


def inventory(project: str) -> bytes:
    """Returns an inventory as Sphinx reads it: four lines, and the names, compressed."""
    _, names = PROJECTS[project]
    head = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n"
    head += "# The remainder of this file is compressed using zlib.\n"
    lines = [f"{name} {role} 1 {page.format(name=name)} -\n" for name, (role, page) in sorted(names.items())]
    return head.encode() + zlib.compress("".join(lines).encode(), 0)  # which is the same bytes by every zlib


def mapping() -> dict[str, tuple[str, str]]:
    """What intersphinx is told: where each project is, and which file has its names."""
    return {project: (address, f"_inventories/{project}.inv") for project, (address, _) in PROJECTS.items()}


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if sys.argv[1:] else FOLDER
    for project in PROJECTS:
        (folder / f"{project}.inv").write_bytes(inventory(project))
