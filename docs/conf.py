"""The documentation site: Markdown pages by MyST, the reference from the docstrings. Built by `scripts/docs`."""

import longmemeval

project = "longmemeval"
author = "The longmemeval developers"
project_copyright = author
release = version = longmemeval.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
html_theme = "furo"
html_title = f"longmemeval {version}"
# The same pages are read on the repository's site, where headings are linked by their text.
myst_heading_anchors = 4
autodoc_typehints = "description"
autodoc_member_order = "bysource"
autodoc_class_signature = "separated"
nitpicky = False
