"""Names of codecs: the one place that turns a name into a codec and a codec into a name.

`zstd-5` is the codec `zstd` at level -5, and so is `zstd/-5`; a name with a hyphen in it needs the slash, as in
`lz4-frame/5`. What is looked up first wins: built in, then registered, then offered by an installed package under the
entry point group `compressed_array.codecs`, then known to numcodecs. Looking up a name imports that codec alone.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from compressed_array.abc import Codec
from compressed_array.errors import CodecLevelError, UnknownCodecError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "compressed_array.codecs"
SHORTHAND = re.compile(r"^((?:[A-Za-z]+)|(?:[\w\-]+/))(\-?[0-9]+)$")


@dataclass(frozen=True)
class CodecInfo:
    """Whether a codec can be used here, and what brings it if not."""

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
    library: str | None = None
    extra: str | None = None


_BUILT_IN = {
    "none": _BuiltIn("compressed_array.codecs.none:Raw"),
    "rle": _BuiltIn("compressed_array.codecs.rle:RLE"),
    "rle-jit": _BuiltIn("compressed_array.codecs.rle:RLEJit", "numba", "numba"),
    "gzip": _BuiltIn("compressed_array.codecs.gzip:Gzip"),
    "igzip": _BuiltIn("compressed_array.codecs.igzip:Igzip", "isal", "isal"),
    "zstd": _BuiltIn("compressed_array.codecs.zstd:Zstd", "zstandard", "zstd"),
    "lz4-frame": _BuiltIn("compressed_array.codecs.lz4:LZ4Frame", "lz4", "lz4"),
    "lz4-block": _BuiltIn("compressed_array.codecs.lz4:LZ4Block", "lz4", "lz4"),
}
_registered: dict[str, Any] = {}


def get_codec(spec: Any) -> Any:
    """The codec that `spec` names: a shorthand, a config with an `id`, or a codec, which is returned as it is."""
    if isinstance(spec, str):
        return _from_config(parse_shorthand(spec))
    if isinstance(spec, Mapping):
        return _from_config(spec)
    if not isinstance(spec, type) and all(hasattr(spec, name) for name in ("codec_id", "encode", "decode")):
        return spec
    raise TypeError(f"a codec is a name such as 'zstd-3', a config with an 'id', or a codec object, not {spec!r}")


def parse_shorthand(text: str) -> dict[str, Any]:
    """The config that a shorthand stands for."""
    match = SHORTHAND.match(text)
    if match is None:
        return {"id": text}
    return {"id": match[1].removesuffix("/"), "level": int(match[2])}


def shorthand(codec: Any) -> str:
    """The shortest name that `get_codec` makes an equal codec from; its `codec_id` where a name cannot say it all."""
    config = codec.get_config()
    codec_id = str(config["id"])
    rest = {k: v for k, v in config.items() if k not in ("id", "level") and v is not None}
    if "level" not in config or rest.keys() - {"itemsize"}:
        return codec_id
    return f"{codec_id}{'' if codec_id.isalpha() else '/'}{config['level']}"


def register_codec(cls: Any, codec_id: str | None = None, *, replace: bool = False) -> None:
    """Make a codec class known by its `codec_id`, or by another name."""
    name = cls.codec_id if codec_id is None else codec_id
    if not isinstance(name, str) or not name:
        raise ValueError(f"a codec is registered under a name, not {name!r}")
    if not replace:
        if name in _BUILT_IN:
            raise ValueError(f"codec {name!r} is built in; pass replace=True to use another in its place")
        if _registered.get(name, cls) is not cls:
            raise ValueError(f"codec {name!r} is registered as {_registered[name]!r}; pass replace=True to replace it")
    _registered[name] = cls


def available_codecs() -> dict[str, CodecInfo]:
    """Every codec known by name, with what is needed to use it."""
    known = {name: CodecInfo(True, source="entry point") for name in _offered()}
    for name, built_in in _BUILT_IN.items():
        known[name] = CodecInfo(built_in.library is None or _importable(built_in.library), built_in.extra)
    known.update({name: CodecInfo(True, source="registered") for name in _registered})
    return known


def has_numba() -> bool:
    """Whether numba is installed: `rle-jit`, and the fast path of batches."""
    return _importable("numba")


def has_igzip() -> bool:
    """Whether isal is installed: `igzip`."""
    return _importable("isal")


def has_zstd() -> bool:
    """Whether zstandard is installed: `zstd`."""
    return _importable("zstandard")


def has_lz4() -> bool:
    """Whether lz4 is installed: `lz4-frame` and `lz4-block`."""
    return _importable("lz4")


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # a module without a spec, as some tests put in sys.modules
        return False


def _from_config(config: Mapping[str, Any]) -> Any:
    codec_id = config.get("id")
    if not isinstance(codec_id, str):
        raise ValueError(f"a codec's config needs an 'id', as in {{'id': 'zstd', 'level': 3}}, not {dict(config)!r}")
    cls = _find_class(codec_id)
    if cls is None:
        return _from_numcodecs(config)
    if "level" in config and not _takes_level(cls):
        raise CodecLevelError(f"codec {codec_id!r} has no levels, so {config['level']!r} cannot be one")
    return cls.from_config(config) if issubclass(cls, Codec) else cls.from_config(_without_id(config))


def _without_id(config: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in config.items() if k != "id"}


def _takes_level(cls: Any) -> bool:
    parameters = inspect.signature(cls).parameters.values()
    return any(p.name == "level" or p.kind is p.VAR_KEYWORD for p in parameters)


def _find_class(codec_id: str) -> Any:
    if codec_id in _registered:
        return _registered[codec_id]
    if codec_id in _BUILT_IN:
        module, _, name = _BUILT_IN[codec_id].where.partition(":")
        return getattr(importlib.import_module(module), name)
    offered = _offered().get(codec_id)
    return None if offered is None else offered.load()


def _offered() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # a third of the time that importing this package takes

    # Read at every lookup of a name we do not know: a cache would miss a package installed meanwhile.
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


def _from_numcodecs(config: Mapping[str, Any]) -> Any:
    codec_id = config["id"]
    try:
        registry = importlib.import_module("numcodecs.registry")
    except ImportError:
        raise UnknownCodecError(codec_id, sorted(available_codecs())) from None
    try:
        return registry.get_codec(dict(config))
    except ValueError as error:
        # numcodecs says the same of a name it does not know and of an argument it does not like.
        if codec_id in registry.codec_registry:
            raise
        raise UnknownCodecError(codec_id, sorted(available_codecs())) from error
