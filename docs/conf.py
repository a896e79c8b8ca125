"""How Sphinx builds these pages: `nox -s docs`, with every warning an error and nothing fetched."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "_tools"))

from inventories import mapping
from sphinx.application import Sphinx

from compressed_array import __version__

project = "Compressed Array"
author = "The Compressed Array contributors"
copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",  # docstrings have sections `Args:` and `Returns:`
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "repository_directives",
    "results_directives",
]
exclude_patterns = ["_build", "_readme", "_tools"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
intersphinx_mapping = mapping()
intersphinx_disabled_reftypes = ["std:*"]

# In docstrings `name` is a link where there is such a name, and code where there is none.
default_role = "py:obj"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_inherit_docstrings = False  # those of numpy and torch are theirs
autodoc_member_order = "bysource"
# Their names, and not all that they stand for.
autodoc_type_aliases = {f"npt.{name}": f"numpy.typing.{name}" for name in ("ArrayLike", "DTypeLike", "NDArray")}
autodoc_class_signature = "mixed"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

pygments_dark_style = "github-dark"
html_theme = "furo"
html_title = "Compressed Array"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#b03a0a", "color-brand-content": "#1f5fa8"},
    "dark_css_variables": {"color-brand-primary": "#fb923c", "color-brand-content": "#7ab3f0"},
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Checked by `nox -s docs -- linkcheck`, where there is a network.
linkcheck_timeout = 20
linkcheck_retries = 2


def read_plainly(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """A star in a docstring is a star, as in `(batch, *shape)`, and a colon a colon."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[number] = re.sub(r"(?<=[( ])\*(?=[a-z])", r"\\*", line)
    if what == "property":
        lines.insert(0, "\\ ")  # nothing, or napoleon takes what stands before a colon in the first line for a type


def name_aliases(app: Sphinx, domain: str, kind: str, content: Any) -> None:
    """An alias in a union is shown by its name, where Sphinx 9.0 shows `TypeAliasForwardRef('its.name') | None`."""
    for types in app.env.current_document.autodoc_annotations.values():
        for parameter, said in types.items():
            types[parameter] = re.sub(r"TypeAliasForwardRef\('([\w.]+)'\)", r"\1", said)


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", read_plainly, priority=400)  # before napoleon's, at 500
    app.connect("object-description-transform", name_aliases, priority=400)  # before they are put into the page, at 500
