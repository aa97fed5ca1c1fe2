"""Sphinx configuration."""

from oar.version import __version__

project = "OAR"
author = "The OAR developers"
copyright = "The OAR developers"
release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]

autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = "OAR"
