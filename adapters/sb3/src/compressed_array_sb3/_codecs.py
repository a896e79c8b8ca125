"""Which codec each observation is kept with: by `codec`, or by the options that sb3-extra-buffers has instead."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from gymnasium import spaces

import compressed_array as ca
from compressed_array.registry import parse_shorthand
from compressed_array_sb3.errors import BufferOptionError, CodecLevelWarning

# `auto` leaves observations of up to this many bytes plain. A million transitions of vectors this small take half a
# gigabyte at the most. To keep next observations once would save half of that, and adding a step would take three times
# as long.
SMALL = 256
PLAIN = "none"


def choose(codec: Any, method: str | None, options: Mapping[str, Any] | None) -> Any:
    """Returns the codec that the options of a buffer ask for: a name, a codec, or a mapping of keys to these."""
    if method is None:
        if options:
            raise BufferOptionError("compression_kwargs are for a compression_method; give codec='zstd-3', say")
        return dict(codec) if isinstance(codec, Mapping) else codec
    if codec != "auto":
        raise BufferOptionError("give codec or compression_method, which are two names for one thing")
    known = {"compresslevel", "elem_type", "runs_type"}
    unknown = sorted(set(options or ()) - known)
    if unknown:
        raise BufferOptionError(f"unknown compression_kwargs {unknown}; known: {sorted(known)}")
    name = "rle" if method == "rle-old" else method  # the same payload, which it decoded more slowly
    if options and "compresslevel" in options:
        return _near(name, parse_shorthand(name) | {"level": options["compresslevel"]})
    return name if name == "auto" else _near(name, parse_shorthand(name))


def _near(name: str, config: dict[str, Any]) -> Any:
    """Returns the codec of a config at the nearest level it has, since sb3-extra-buffers takes any level."""
    used: Any = PLAIN
    if config["id"] != PLAIN or "level" not in config:  # its `none` ignores a level
        try:
            codec = ca.get_codec(config)
        except ca.CodecLevelError as error:
            if error.nearest is None:
                raise
            used = ca.shorthand(ca.get_codec(config | {"level": error.nearest}))
        else:
            return name if config == parse_shorthand(name) else codec
    # Above this function are `choose`, the constructor of `CompressedBuffer`, and the code that makes the buffer.
    text = f"compression_method {config['id']!r} has no level {config['level']}; {used!r} is used in its place"
    warnings.warn(text, CodecLevelWarning, stacklevel=4)
    return used


def for_key(codec: Any, key: str, nbytes: int) -> Any:
    """Returns the codec of one observation; None where a plain array is best, or asked for."""
    chosen = codec.get(key, "auto") if isinstance(codec, dict) else codec
    if chosen == PLAIN or (chosen == "auto" and nbytes <= SMALL) or nbytes == 0:
        return None
    return chosen


def check_keys(codec: Any, space: spaces.Space[Any]) -> None:
    """Refuses codecs for keys that the observations do not have, and names that no codec has."""
    if isinstance(codec, dict):
        if not isinstance(space, spaces.Dict):
            raise BufferOptionError(
                f"a dict of codecs is for the keys of a Dict space, and these observations are {space}: "
                f"give one codec, as in codec={next(iter(codec.values()), 'auto')!r}"
            )
        keys = list(space.spaces)
        unknown = sorted(set(codec) - set(keys))
        if unknown:
            raise BufferOptionError(f"codecs for {unknown}, but the observations have the keys {keys}")
    for chosen in codec.values() if isinstance(codec, dict) else [codec]:
        if chosen is None:
            raise BufferOptionError(
                "None is no codec: leave it out, or say 'auto', to have one chosen; 'none' keeps plain arrays"
            )
        if not (isinstance(chosen, str) and chosen == "auto"):
            ca.get_codec(chosen)
