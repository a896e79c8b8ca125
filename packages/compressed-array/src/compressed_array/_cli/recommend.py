"""`compressed-array recommend`: which codec suits the items of a file, or the observations of an environment."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Annotated, Any

import typer

import compressed_array as ca
from compressed_array._array.recommend import Recommendation
from compressed_array._cli import advice
from compressed_array._cli.failures import UsageError
from compressed_array._cli.output import AsJson, progress, say, say_json
from compressed_array._cli.play import Game, play
from compressed_array._cli.sources import Part, check_measurable, read_parts
from compressed_array.registry import get_codec
from compressed_array.usage import size

SourceFile = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="A .npy, .npz or .ca file, or a video.", show_default=False)
]
EnvId = Annotated[str | None, typer.Option("--env", metavar="ID", help="Play this instead, such as CartPole-v1.")]
Envs = Annotated[int, typer.Option(min=1, max=256, help="How many of it.")]
Steps = Annotated[int, typer.Option(min=1, help="Steps in each.")]
Seed = Annotated[int, typer.Option(min=0, help="Of its actions and resets.")]
ItemNdim = Annotated[
    int | None, typer.Option(min=0, help="Axes of an item, the last ones; otherwise all but the first.")
]
Codecs = Annotated[
    list[str] | None, typer.Option("--codec", metavar="NAME", help="Measure this one only; may be repeated.")
]


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
    """Measure which codec suits a file or an environment.

    Atari games are wrapped as usual: 84 x 84 pixels, grey, four frames stacked.
    """
    candidates = None if not codec else [name if name == "auto" else get_codec(name) for name in codec]
    game, parts = source(file, env, envs, steps, seed, item_ndim, quiet=as_json)
    found: dict[str, Recommendation] = {}
    with progress("measuring codecs", len(parts), quiet=as_json) as advance:
        for part in parts:
            found[part.name] = ca.recommend(part.sample, candidates, item_ndim=part.item_ndim)
            advance()
    best = {name: advice.best_name(one) for name, one in found.items()}
    sb3 = None if game is None else advice.for_sb3(game, best)
    if as_json:
        origin = {"file": None if file is None else str(file), "env": env, "wrappers": game and game.wrappers}
        say_json(origin | {"parts": [_as_json(part, found[part.name], game) for part in parts], "sb3": sb3})
        return
    if game is not None:
        say(f"{env}: {steps:,} random steps in each of {envs}\nwrappers: {game.wrappers}")
    for part in parts:
        _show(part, found[part.name], _code(part, best[part.name], game))
    if sb3 is not None:
        say("\nIn Stable-Baselines3:\n" + _indented(sb3))


def source(
    file: Path | None, env: str | None, envs: int, steps: int, seed: int, item_ndim: int | None, *, quiet: bool
) -> tuple[Game | None, list[Part]]:
    """Return what a command was given to measure: the game, if it is one, and the arrays."""
    if (file is None) == (env is None):
        raise UsageError("give either a file or --env, as in `--env PongNoFrameskip-v4`")
    if file is None:
        assert env is not None
        game = play(env, envs, steps, seed, quiet=quiet)
        check_measurable(game.parts)
        return game, game.parts
    parts = read_parts(file, item_ndim)
    check_measurable(parts)
    return None, parts


def _code(part: Part, codec: str, game: Game | None) -> str:
    return advice.for_numpy(part, codec) if game is None else advice.for_steps(part, codec)


def _show(part: Part, found: Recommendation, code: str) -> None:
    items = part.array.shape[part.array.ndim - part.item_ndim :]
    name = f"{part.name}: " if part.name else ""
    count = part.array.size // max(prod(items), 1)
    say(f"\n{name}{count:,} items of {items} {part.array.dtype}, {size(part.array.nbytes)}", "bold")
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
