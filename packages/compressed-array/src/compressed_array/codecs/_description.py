"""A codec as a file describes it: its config, and which library it is of; and making one from such a description."""

from __future__ import annotations

from typing import Any

from compressed_array.abc import Codec
from compressed_array.errors import CodecUnavailableError, CorruptFileError
from compressed_array.registry import get_codec

UNSAFE = {"pickle"}  # numcodecs has it
# What numcodecs has only with another library, by the extra that brings that.
EXTRAS = {"zfpy": "zfpy", "pcodec": "pcodec", "crc32c": "crc32c", "msgpack2": "msgpack"}


def describe(codec: Any) -> dict[str, Any]:
    """Returns what a file says about a codec."""
    # Another library may use one of our ids for a class with other parameters, so the file says whose it is.
    return {"library": "compressed-array" if isinstance(codec, Codec) else "numcodecs", "config": codec.get_config()}


def described(description: dict[str, Any]) -> Any:
    """Returns the codec that a file describes; refuses one that would run what is in the file."""
    config = description["config"]
    if config["id"] in UNSAFE:
        raise CorruptFileError(f"codec {config['id']!r} would run what is in the file; it is refused")
    if description["library"] == "compressed-array":
        return get_codec(config)
    try:
        import numcodecs
    except ImportError as error:
        raise CodecUnavailableError(config["id"], "numcodecs") from error
    registry = numcodecs.registry
    if config["id"] in EXTRAS and config["id"] not in {*registry.codec_registry, *registry.entries}:
        raise CodecUnavailableError(config["id"], EXTRAS[config["id"]], "numcodecs")
    return numcodecs.get_codec(config)
