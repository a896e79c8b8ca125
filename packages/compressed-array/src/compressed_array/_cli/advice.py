"""What to do with what was measured, in a line, and as code to paste."""

from __future__ import annotations

import json

from compressed_array._array.recommend import Recommendation
from compressed_array._cli.output import call
from compressed_array._cli.play import Game
from compressed_array._cli.sources import Part
from compressed_array.codecs._measure import is_auto
from compressed_array.registry import shorthand

IMAGE_NDIM = 3  # of an observation that SB3's policies take for an image


def best_name(found: Recommendation) -> str:
    """Return what `codec=` takes for the codec that is recommended."""
    best = found.best
    return str(best) if is_auto(best) else shorthand(best)


def in_words(found: Recommendation) -> str:
    """Return the advice in one line."""
    name = best_name(found)
    best = next(m for m in found.measurements if m.codec is found.best)
    if name == "none":
        return "Keep a plain array: no codec makes enough of these items smaller."
    return f"Use {name}: {best.ratio:,.1f}x smaller, and {best.decode_seconds * 1e6:,.1f} µs to read an item."


def for_numpy(part: Part, codec: str) -> str:
    """Return code that compresses an array of a file."""
    if codec == "none":
        return f"a = {part.code}"
    arguments = ["frames", f"item_ndim={part.item_ndim}", f'codec="{codec}"']
    return f"frames = {part.code}\n" + call("a = ca.compress", arguments)


def for_steps(part: Part, codec: str) -> str:
    """Return code that makes an array for the steps of an environment."""
    name = part.name if part.name.isidentifier() else "obs"
    arguments = [str(part.array.shape), f'"{part.array.dtype}"']
    if codec == "none":
        return call(f"{name} = np.zeros", arguments)
    return call(f"{name} = ca.zeros", [*arguments, f"item_ndim={part.item_ndim}", f'codec="{codec}"'])


def for_sb3(game: Game, codecs: dict[str, str]) -> str:
    """Return code that makes a model of SB3 whose buffer has these codecs, by the key of the observations."""
    is_dict = list(codecs) != [""]
    algorithm = {"Discrete": "DQN", "Box": "SAC"}.get(game.actions, "PPO")
    kind = "rollout" if algorithm == "PPO" else "replay"
    buffer = f"Compressed{'Dict' if is_dict else ''}{kind.capitalize()}Buffer"
    single = "CnnPolicy" if game.parts[0].item_ndim == IMAGE_NDIM else "MlpPolicy"
    policy = "MultiInputPolicy" if is_dict else single
    lines = [f"from compressed_array_sb3 import {buffer}", f"from stable_baselines3 import {algorithm}"]
    if is_dict:
        lines += ["codecs = {", *(f"    {json.dumps(key)}: {json.dumps(codec)}," for key, codec in codecs.items()), "}"]
    chosen = "codecs" if is_dict else json.dumps(codecs[""])
    arguments = [f'"{policy}"', "env", f"{kind}_buffer_class={buffer}", f'{kind}_buffer_kwargs={{"codec": {chosen}}}']
    return "\n".join([*lines, call(f"model = {algorithm}", arguments)])
