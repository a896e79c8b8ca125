"""Checks a built site: every link within it leads somewhere, and every public name has its place in the reference.

    python docs/_tools/check_site.py docs/_build/html

Links to other sites are not followed: `nox -s docs -- linkcheck` does that, where there is a network.
"""

from __future__ import annotations

import importlib
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.util.inventory import InventoryFile

# The modules whose public names have to be in the reference, and what is there for users of sb3-extra-buffers alone or
# said elsewhere.
MODULES = (
    "compressed_array",
    "compressed_array.recording",
    "compressed_array.sampling",
    "compressed_array.torch",
    "compressed_array_sb3",
    "compressed_array_sbx",
    "compressed_array_torch",
)
LEFT_OUT = {"__version__", "DummyCls", "sb3_version"}


class Page(HTMLParser):
    """What a page links to, and what can be linked to on it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, text in attrs:
            if name in ("href", "src") and text:
                self.links.append(text)
            elif name == "id" and text:
                self.anchors.add(text)


def broken_links(site: Path) -> list[str]:
    """Links within the site to a file that is not there, or to a place that the file does not have."""
    pages = {path.resolve(): Page(path.read_text()) for path in site.rglob("*.html")}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link == "#":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            found = target.exists() and target.is_relative_to(site.resolve())
            # Sphinx's pages of source link every function back to the reference, also those that it does not show.
            if found and parts.fragment and target in pages and "_modules" not in path.parts:
                found = unquote(parts.fragment) in pages[target].anchors
            if not found:
                broken.append(f"{path.relative_to(site.resolve())}: {link}")
    return broken


def missing_names(site: Path) -> list[str]:
    """Public names that the reference does not have, under whatever module it shows them."""
    with (site / "objects.inv").open("rb") as stream:
        inventory = InventoryFile.load(stream, "", lambda base, path: path)
    shown = {name.rpartition(".")[2] for kind, names in inventory.items() if kind.startswith("py:") for name in names}
    missing = []
    for name in MODULES:
        module = importlib.import_module(name)
        public = getattr(module, "__all__", [word for word in vars(module) if not word.startswith("_")])
        things = [word for word in public if hasattr(getattr(module, word), "__module__")]
        missing += [f"{name}.{word}" for word in things if word not in shown | LEFT_OUT]
    return missing


def main() -> int:
    site = Path(sys.argv[1])
    wrong = [f"broken link: {link}" for link in broken_links(site)]
    wrong += [f"not in the reference: {name}" for name in missing_names(site)]
    sound = f"{site}: every link within it leads somewhere, and every public name is in the reference"
    print("\n".join(wrong) or sound)  # noqa: T201 - for a person at a terminal
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
