"""Advice that follows from what was measured: a line of text, and code to paste."""

from __future__ import annotations

import json

from compressed_array._array.recommend import Recommendation
from compressed_array._cli.output import call
from compressed_array._cli.play import Game
from compressed_array._cli.sources import Part, literal
from compressed_array.codecs._measure import is_auto
from compressed_array.registry import shorthand

IMPORTS = {
    "np": "import numpy as np",
    "ca": "import compressed_array as ca",
    "iio": "import imageio.v3 as iio",
    "recording": "from compressed_array import recording",
}
IMAGE_NDIM = 3  # of an observation that SB3's policies take for an image


def best_name(found: Recommendation) -> str:
    """Returns what `codec=` takes for the codec that is recommended."""
    best = found.best
    return str(best) if is_auto(best) else shorthand(best)


def in_words(found: Recommendation) -> str:
    """Returns the advice in one line."""
    name = best_name(found)
    best = next(m for m in found.measurements if m.codec is found.best)
    if name == "none":
        return "Keep a plain array: no codec makes enough of these items smaller."
    return f"Use {name}: {best.ratio:,.1f}x smaller, and {best.decode_seconds * 1e6:,.1f} µs to read an item."


def for_numpy(part: Part, codec: str) -> str:
    """Returns code that compresses an array of a file."""
    if codec == "none":
        return _with_imports(f"a = {part.code}")
    arguments = ["frames", f"item_ndim={part.item_ndim}", f'codec="{codec}"']
    return _with_imports(f"frames = {part.code}\n" + call("a = ca.compress", arguments))


def for_steps(part: Part, codec: str) -> str:
    """Returns code that makes an array for the steps of an environment."""
    name = part.name if part.name.isidentifier() else "obs"
    arguments = [str(part.array.shape), f'"{part.array.dtype}"']
    if codec == "none":
        return _with_imports(call(f"{name} = np.zeros", arguments))
    return _with_imports(call(f"{name} = ca.zeros", [*arguments, f"item_ndim={part.item_ndim}", f'codec="{codec}"']))


def for_sb3(game: Game, codecs: dict[str, str]) -> str:
    """Returns code that makes a model of SB3 whose buffer has these codecs, by the key of the observations.

    It plays one game, in the same wrappers.
    """
    is_dict = list(codecs) != [""]
    algorithm = {"Discrete": "DQN", "Box": "SAC"}.get(game.actions, "PPO")
    kind = "rollout" if algorithm == "PPO" else "replay"
    buffer = f"Compressed{'Dict' if is_dict else ''}{kind.capitalize()}Buffer"
    single = "CnnPolicy" if game.parts[0].item_ndim == IMAGE_NDIM else "MlpPolicy"
    policy = "MultiInputPolicy" if is_dict else single
    lines = [f"from compressed_array_sb3 import {buffer}", f"from stable_baselines3 import {algorithm}"]
    made = literal(game.env_id)
    if game.is_atari:
        lines.insert(1, "from compressed_array_sb3.training_utils.atari import make_env")
        lines.append(call("env = make_env", [made, "n_envs=1"] + ["frameskip=1"] * ("NoFrameskip" not in game.env_id)))
    else:
        lines = ["import gymnasium", *lines, call("env = gymnasium.make", [made])]
    if is_dict:
        lines += ["codecs = {", *(f"    {json.dumps(key)}: {json.dumps(codec)}," for key, codec in codecs.items()), "}"]
    chosen = "codecs" if is_dict else json.dumps(codecs[""])
    arguments = [f'"{policy}"', "env", f"{kind}_buffer_class={buffer}", f'{kind}_buffer_kwargs={{"codec": {chosen}}}']
    return "\n".join([*lines, call(f"model = {algorithm}", arguments)])


def _with_imports(code: str) -> str:
    lines = [line for name, line in IMPORTS.items() if f" {name}." in code]
    return "\n".join([*lines, code])
