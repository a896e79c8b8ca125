"""The options that say what a command measures, a file or an environment, and by which codecs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from compressed_array._cli.failures import UsageError
from compressed_array._cli.play import Game, play
from compressed_array._cli.sources import Part, measurable, read_parts
from compressed_array.registry import get_codec

SourceFile = Annotated[
    Path | None,
    typer.Argument(metavar="FILE", help="A .npy, .npz or .ca file, a recording, a GIF or a video.", show_default=False),
]
EnvId = Annotated[str | None, typer.Option("--env", metavar="ID", help="Play this instead, such as CartPole-v1.")]
Envs = Annotated[int, typer.Option(min=1, max=256, help="Number of environments.")]
Steps = Annotated[int, typer.Option(min=1, help="Steps in each environment.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed for actions and resets.")]
ItemNdim = Annotated[
    int | None, typer.Option(min=0, help="Axes of an item, the last ones; otherwise all but the first.")
]
Codecs = Annotated[
    list[str] | None, typer.Option("--codec", metavar="NAME", help="Measure this one only; may be repeated.")
]


def asked_codec(name: str) -> Any:
    """Returns what a codec is called as arrays take it; raises for one that is not here, or has no such level."""
    return name if name == "auto" else get_codec(name)


def source(
    file: Path | None, env: str | None, envs: int, steps: int, seed: int, item_ndim: int | None, *, quiet: bool
) -> tuple[Game | None, list[Part]]:
    """Returns what a command was given to measure: the game, if it is one, and the arrays."""
    if (file is None) == (env is None):
        raise UsageError("give either a file or --env, as in `--env PongNoFrameskip-v4`")
    if file is None:
        assert env is not None
        if item_ndim is not None:
            raise UsageError("--item-ndim is for files: of an environment, each observation is an item")
        game = play(env, envs, steps, seed, quiet=quiet)
        return game, measurable(game.parts)
    return None, measurable(read_parts(file, item_ndim))
