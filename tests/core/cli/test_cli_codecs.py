"""`codecs` says what the library says."""

from __future__ import annotations

import pytest

pytest.importorskip("typer")

import compressed_array as ca
from core_helpers.command_line import answer, run_program, text

KNOWN = ca.available_codecs()


def test_json_is_what_the_library_says() -> None:
    said = {codec["name"]: codec for codec in answer("codecs")["codecs"]}
    assert list(said) == list(KNOWN)
    assert {name: (c["available"], c["extra"]) for name, c in said.items()} == {
        name: (info.available, info.extra) for name, info in KNOWN.items()
    }


@pytest.mark.parametrize("name", KNOWN)
def test_levels_are_the_codecs_own(name: str) -> None:
    said = next(codec for codec in answer("codecs")["codecs"] if codec["name"] == name)
    if not said["available"]:
        pytest.skip("is not here to be asked")
    if said["lowest_level"] is None:
        with pytest.raises((ca.CodecLevelError, TypeError)):
            ca.get_codec(f"{name}/1")
        return
    assert ca.get_codec(name).level == said["default_level"]
    for end, beyond in ((said["lowest_level"], -1), (said["highest_level"], 1)):
        assert ca.get_codec({"id": name, "level": end}).level == end
        with pytest.raises(ca.CodecLevelError):
            ca.get_codec({"id": name, "level": end + beyond})


def test_text_has_a_line_for_each() -> None:
    lines = text("codecs").splitlines()
    assert [line.split()[0] for line in lines[1 : len(KNOWN) + 1]] == list(KNOWN)
    assert "gzip        0 to 9        6        yes" in lines


def test_what_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    known = KNOWN | {"zstd": ca.registry.CodecInfo(False, "zstd"), "lz4-block": ca.registry.CodecInfo(False, "lz4")}
    monkeypatch.setattr(ca, "available_codecs", lambda: known)
    assert "pip install 'compressed-array[lz4,zstd" in text("codecs").replace("isal,", "")


def test_names_are_whole_in_a_narrow_terminal() -> None:
    lines = run_program("codecs", columns=20).stdout.splitlines()
    assert lines[1 : 2 * len(KNOWN) + 1 : 2] == list(KNOWN)  # each before the rest of its row
    assert max(map(len, lines[: 2 * len(KNOWN) + 1])) <= 20
