"""Which codec each observation is kept with: from `codec`, or from the options that sb3-extra-buffers has for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gymnasium import spaces

import compressed_array as ca
from compressed_array_sb3.errors import BufferOptionError

# An item this small is not worth its two entries in a table.
SMALL = 64
PLAIN = "none"


def choose(codec: Any, method: str | None, options: Mapping[str, Any] | None) -> Any:
    """The codec that is meant: a name, a codec, or a mapping of keys to these."""
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
        return ca.get_codec({**ca.get_codec(name).get_config(), "level": options["compresslevel"]})
    return name


def for_key(codec: Any, key: str, nbytes: int) -> Any:
    """The codec of one observation; None where a plain array is best, or asked for."""
    chosen = codec.get(key, "auto") if isinstance(codec, dict) else codec
    if chosen is None or chosen == PLAIN or (chosen == "auto" and nbytes <= SMALL) or nbytes == 0:
        return None
    return chosen


def check_keys(codec: Any, space: spaces.Space[Any]) -> None:
    """Refuse codecs for keys that the observations do not have, and names that no codec has."""
    if isinstance(codec, dict):
        keys = list(space.spaces) if isinstance(space, spaces.Dict) else []
        unknown = sorted(set(codec) - set(keys))
        if unknown:
            raise BufferOptionError(f"codecs for {unknown}, but the observations have the keys {keys}")
    for chosen in codec.values() if isinstance(codec, dict) else [codec]:
        if chosen is not None and not (isinstance(chosen, str) and chosen == "auto"):
            ca.get_codec(chosen)
