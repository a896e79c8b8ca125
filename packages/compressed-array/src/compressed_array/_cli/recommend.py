"""`compressed-array recommend`: which codec suits the items of a file, or the observations of an environment."""

from __future__ import annotations

from math import prod
from typing import Any

import compressed_array as ca
from compressed_array._array.recommend import Recommendation
from compressed_array._cli import advice
from compressed_array._cli.measured import (
    Codecs,
    EnvId,
    Envs,
    ItemNdim,
    Seed,
    SourceFile,
    Steps,
    asked_codec,
    source,
)
from compressed_array._cli.output import AsJson, counted, progress, say, say_json
from compressed_array._cli.play import Game
from compressed_array._cli.sources import Part
from compressed_array.usage import size

WARM_UP = 256  # items, or steps of all environments: enough for "auto" to look at a stream


def recommend(
    file: SourceFile = None,
    env: EnvId = None,
    envs: Envs = 4,
    steps: Steps = 1000,
    seed: Seed = 0,
    item_ndim: ItemNdim = None,
    codec: Codecs = None,
    as_json: AsJson = False,
) -> None:
    """Measures which codec suits a file or an environment.

    Atari games are wrapped as usual: 84 x 84 pixels, grey, four frames stacked.
    """
    candidates = [asked_codec(name) for name in codec] if codec else None
    game, parts = source(file, env, envs, steps, seed, item_ndim, quiet=as_json)
    found: dict[str, Recommendation] = {}
    with progress("measuring codecs", len(parts), quiet=as_json) as advance:
        for part in parts:
            # Not counted, since the first calls compile, or load what was compiled.
            ca.recommend(part.array[:WARM_UP], candidates, item_ndim=part.item_ndim)
            found[part.name] = ca.recommend(part.array, candidates, item_ndim=part.item_ndim)
            advance()
    best = {name: advice.best_name(one) for name, one in found.items()}
    sb3 = None if game is None or not game.is_for_sb3 else advice.for_sb3(game, best)
    if as_json:
        origin = {"file": None if file is None else str(file), "env": env, "wrappers": game and game.wrappers}
        say_json(origin | {"parts": [_as_json(part, found[part.name], game) for part in parts], "sb3": sb3})
        return
    if game is not None:
        say(f"{env}: {counted(steps, 'random step')} in each of {envs}\nwrappers: {game.wrappers}")
    for part in parts:
        if game is not None or part is not parts[0]:
            say()
        _show(part, found[part.name], _code(part, best[part.name], game))
    if sb3 is not None:
        say("\nIn Stable-Baselines3:\n" + _indented(sb3))


def _code(part: Part, codec: str, game: Game | None) -> str:
    return advice.for_numpy(part, codec) if game is None else advice.for_steps(part, codec)


def _show(part: Part, found: Recommendation, code: str) -> None:
    items = part.array.shape[part.array.ndim - part.item_ndim :]
    name = f"{part.name}: " if part.name else ""
    count = part.array.size // max(prod(items), 1)
    say(f"{name}{counted(count, 'item')} of {items} {part.array.dtype}, {size(part.array.nbytes)}", "bold")
    say(str(found))
    say(f"\n{advice.in_words(found)}")
    say(_indented(code))


def _as_json(part: Part, found: Recommendation, game: Game | None) -> dict[str, Any]:
    best = advice.best_name(found)
    return {
        "name": part.name,
        "shape": list(part.array.shape),
        "dtype": str(part.array.dtype),
        "item_ndim": part.item_ndim,
        "measurements": [
            {
                "codec": m.name,
                "item_bytes": m.nbytes,
                "stored_bytes": m.stored_bytes,
                "ratio": m.ratio,
                "write_seconds": m.encode_seconds,
                "read_seconds": m.decode_seconds,
            }
            for m in found.measurements
        ],
        "best": best,
        "code": _code(part, best, game),
    }


def _indented(code: str) -> str:
    return "\n".join(f"  {line}" for line in code.splitlines())
