"""Names of codecs: the one place that turns a name into a codec and a codec into a name.

`zstd-5` is the codec `zstd` at level -5, and so is `zstd/-5`; a name with a hyphen or a digit in it needs the slash,
as in `lz4-frame/5`. What is looked up first wins: registered, then built in, then offered by an installed package
under the entry point group `compressed_array.codecs`, then known to numcodecs; and in each of these a codec of just
that name comes before a shorter name with a level (`lz4`, `bz2` and `crc32` are codecs of numcodecs). Looking up a
name imports that codec alone.

Configs go to numcodecs and zarr as well, where our `delta` would be taken for theirs: its `id` is `frame-delta`, and
`delta` our name for it. Both are looked up here, as configs that were written before have the name.
"""

from __future__ import annotations

import inspect
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from compressed_array._runtime import loading
from compressed_array.errors import CodecLevelError, CodecUnavailableError, UnknownCodecError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "CodecInfo",
    "available_codecs",
    "get_codec",
    "has_igzip",
    "has_lz4",
    "has_numba",
    "has_zstd",
    "parse_shorthand",
    "register_codec",
    "shorthand",
]

ENTRY_POINT_GROUP = "compressed_array.codecs"
SHORTHAND = re.compile(r"^((?:[A-Za-z]+)|(?:[\w\-]+/))(\-?[0-9]+)$")


@dataclass(frozen=True)
class CodecInfo:
    """Whether a codec can be used here, and which extra of the package brings it if not."""

    available: bool
    extra: str | None = None
    source: str = "built in"

    def __str__(self) -> str:
        if self.available:
            return f"available ({self.source})"
        return f"missing: pip install 'compressed-array[{self.extra}]'"


@dataclass(frozen=True)
class _BuiltIn:
    where: str
    needs: str | None = None
    extra: str | None = None


_BUILT_IN = {
    "none": _BuiltIn("compressed_array.codecs.none:Raw"),
    "rle": _BuiltIn("compressed_array.codecs.rle:RLE"),
    "rle-jit": _BuiltIn("compressed_array.codecs.rle:RLEJit", "numba", "numba"),
    "gzip": _BuiltIn("compressed_array.codecs.gzip:Gzip"),
    "igzip": _BuiltIn("compressed_array.codecs.igzip:Igzip", "isal.isal_zlib", "isal"),
    "zstd": _BuiltIn("compressed_array.codecs.zstd:Zstd", "zstandard", "zstd"),
    "delta": _BuiltIn("compressed_array.codecs.delta:Delta"),
    "delta-zstd": _BuiltIn("compressed_array.codecs.delta:DeltaZstd", "zstandard", "zstd"),
    "lz4-frame": _BuiltIn("compressed_array.codecs.lz4:LZ4Frame", "lz4.frame", "lz4"),
    "lz4-block": _BuiltIn("compressed_array.codecs.lz4:LZ4Block", "lz4.block", "lz4"),
}
# The `id` in configs of what we call otherwise, and the name.
_NAMES = {"frame-delta": "delta"}
_registered: dict[str, Any] = {}


def get_codec(spec: Any) -> Any:
    """Returns the codec that a specification stands for.

    Args:
        spec: A name with or without a level, a config with an `id`, or a codec, which is returned as it is.

    >>> get_codec("gzip9"), get_codec({"id": "gzip", "level": 9})
    (Gzip(level=9), Gzip(level=9))
    """
    if isinstance(spec, str):
        return _from_config({"id": spec}, parse_shorthand(spec))
    if isinstance(spec, Mapping):
        return _from_config(spec)
    if not isinstance(spec, type) and all(hasattr(spec, name) for name in ("codec_id", "encode", "decode")):
        return spec
    raise TypeError(f"a codec is a name such as 'zstd-3', a config with an 'id', or a codec object, not {spec!r}")


def parse_shorthand(text: str) -> dict[str, Any]:
    """Returns the config that a shorthand stands for.

    Args:
        text: A codec's name, with or without a level.

    >>> parse_shorthand("zstd-5")
    {'id': 'zstd', 'level': -5}
    """
    match = SHORTHAND.fullmatch(text)
    if match is None:
        return {"id": text}
    return {"id": match[1].removesuffix("/"), "level": int(match[2])}


def shorthand(codec: Any) -> str:
    """Returns the shortest name that `get_codec` makes an equal codec from.

    What an array sets by itself, the itemsize of `rle`, is left out of it. Where no name says it all, as for a `zstd`
    with a dictionary, the text looks like the codec's repr with long values cut, and is no name that `get_codec` takes.

    Args:
        codec: A codec, of this package or of another one with numcodecs' interface.

    >>> shorthand(get_codec({"id": "gzip", "level": 9}))
    'gzip9'
    """
    config = codec.get_config() if hasattr(codec, "get_config") else {"id": codec.codec_id}
    codec_id, level = _NAMES.get(str(config["id"]), str(config["id"])), config.get("level")
    names = [codec_id] if level is None else [f"{codec_id}{level}"] * codec_id.isalpha() + [f"{codec_id}/{level}"]
    for name in names:
        if _names(name, codec):
            return name
    words = (f"{k}={reprlib.repr(v)}" for k, v in config.items() if k != "id" and v is not None)
    return f"{type(codec).__name__}({', '.join(words)})"


def _names(name: str, codec: Any) -> bool:
    try:
        named = get_codec(name)
    except (CodecLevelError, CodecUnavailableError, UnknownCodecError):
        return False
    if type(named) is type(codec) and hasattr(codec, "itemsize"):
        named = named.from_config({**_without_id(named.get_config()), "itemsize": codec.itemsize})
    return bool(named == codec)


def register_codec(cls: Any, codec_id: str | None = None, *, replace: bool = False) -> None:
    """Makes a codec class known to `get_codec`.

    Args:
        cls: A class with numcodecs' interface: `encode`, `decode` and `from_config`.
        codec_id: The name to know it by, instead of its own `codec_id`.
        replace: Whether it may take the place of a codec that has that name already.

    >>> from compressed_array.codecs.gzip import Gzip
    >>> register_codec(Gzip, "mine")
    >>> get_codec("mine9")
    Gzip(level=9)
    """
    name = cls.codec_id if codec_id is None else codec_id
    if not isinstance(name, str) or not name:
        raise ValueError(f"a codec is registered under a name, not {name!r}")
    if not replace:
        if _NAMES.get(name, name) in _BUILT_IN:
            raise ValueError(f"codec {name!r} is built in; pass replace=True to use another in its place")
        if _registered.get(name, cls) is not cls:
            raise ValueError(f"codec {name!r} is registered as {_registered[name]!r}; pass replace=True to replace it")
    _registered[name] = cls


def available_codecs() -> dict[str, CodecInfo]:
    """Returns every codec known by name, with what is needed to use it. This imports the libraries to try them.

    >>> print(available_codecs()["gzip"])
    available (built in)
    """
    known = {name: CodecInfo(True, source="entry point") for name in _offered()}
    for name, built_in in _BUILT_IN.items():
        known[name] = CodecInfo(built_in.needs is None or _works(built_in.needs), built_in.extra)
    known.update({name: CodecInfo(True, source="registered") for name in _registered})
    return known


def has_numba() -> bool:
    """Whether numba is installed and compiles: `rle-jit` needs it, and batches of most codecs are faster with it."""
    return _works("numba")


def has_igzip() -> bool:
    """Whether isal, which `igzip` needs, is installed and works."""
    return _works("isal.isal_zlib")


def has_zstd() -> bool:
    """Whether zstandard, which `zstd` and `delta-zstd` need, is installed and works."""
    return _works("zstandard")


def has_lz4() -> bool:
    """Whether lz4, which `lz4-frame` and `lz4-block` need, is installed and works."""
    return _works("lz4.frame") and _works("lz4.block")


def _works(library: str) -> bool:
    if library == "numba":
        return loading.native("_runtime.numba_tools") is not None
    try:
        loading.load(library)
    except ImportError:  # missing, or there and broken, in whatever way
        return False
    return True


def class_of(codec_id: str) -> Any:
    """Returns the class of the codec of just that name, whether or not the library that it needs is there."""
    for place in _places():
        if (cls := place(codec_id)) is not None:
            return cls
    raise UnknownCodecError(codec_id, sorted({*_registered, *_BUILT_IN, *_offered()}))


def _from_config(*configs: Mapping[str, Any]) -> Any:
    """Returns the codec of the first config whose `id` is known; a place is asked for all before the next place."""
    for config in configs:
        if not isinstance(config.get("id"), str):
            text = f"a codec's config needs an 'id', as in {{'id': 'zstd', 'level': 3}}, not {dict(config)!r}"
            raise ValueError(text)
    for place in _places():
        for config in configs:
            if (cls := place(config["id"])) is not None:
                return _made(cls, config)
    raise UnknownCodecError(configs[0]["id"], sorted({*_registered, *_BUILT_IN, *_offered()}))


def _made(cls: Any, config: Mapping[str, Any]) -> Any:
    if "level" in config and not _takes_level(cls):
        raise CodecLevelError(f"codec {config['id']!r} has no levels, so {config['level']!r} cannot be one")
    return cls.from_config(_without_id(config))


def _without_id(config: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in config.items() if k != "id"}


def _takes_level(cls: Any) -> bool:
    try:
        parameters = inspect.signature(cls).parameters.values()
    except ValueError:  # a class in C that does not say; its constructor will
        return True
    return any(p.name == "level" or p.kind is p.VAR_KEYWORD for p in parameters)


def _places() -> Iterator[Callable[[str], Any]]:
    """Yields functions from a codec id to its class or None; slow ones are not made before quick ones have failed."""
    yield _registered.get
    yield _built_in
    offered = _offered()
    yield lambda codec_id: offered[codec_id].load() if codec_id in offered else None
    yield _of_numcodecs


def _built_in(codec_id: str) -> Any:
    found = _BUILT_IN.get(_NAMES.get(codec_id, codec_id))
    if found is None:
        return None
    module, _, name = found.where.partition(":")
    return getattr(loading.load(module), name)


def _offered() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # a third of the time that importing this package takes

    # Read at every lookup of a name we do not know: a cache would miss a package installed meanwhile.
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


def _of_numcodecs(codec_id: str) -> Any:
    try:
        registry = loading.load("numcodecs.registry")
    except ImportError:  # missing, or there and broken, in whatever way
        return None
    cls = registry.codec_registry.get(codec_id)
    return registry.entries[codec_id].load() if cls is None and codec_id in registry.entries else cls
