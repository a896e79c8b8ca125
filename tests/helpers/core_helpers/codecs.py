"""The codecs that this environment has."""

from __future__ import annotations

from compressed_array import available_codecs

CODECS = sorted(name for name, info in available_codecs().items() if info.available)
