"""The site of the documentation: the pages of this folder, with the README of the repository as its home.

``make docs`` builds it into build/site; a link or an anchor that leads nowhere is an error. A link to a page
of a feature that is not installed becomes text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from sphinx.application import Sphinx

import scheduler_ext
from scheduler_ext.feature import installed

project = "scheduler-ext"
version = release = scheduler_ext.__version__
html_title = f"scheduler-ext {version}"
html_theme = "furo"
html_show_copyright = html_show_sphinx = False
html_copy_source = html_show_sourcelink = False
extensions = ["myst_parser"]
# Headings are linked to as they are where the sources are read.
myst_heading_anchors = 4
# Most fences are what a terminal shows, with no language of their own.
highlight_language = "text"
# What is beside the site: examples, and machines of the reader's own.
linkcheck_ignore = [r"http://127\.0\.0\.1", r"https://(git|artifacts|registry)\.example"]
linkcheck_timeout = 20

_LINK = re.compile(r"!?\[([^\]]+)\]\(([^()\s]+)\)")
_FEATURES = {feature.name for feature in installed()}


def assembled(app: Sphinx, page: str, content: list[str]) -> None:
    """What pages lack as they are read in the repository: a home, and the pages below an index; and only the
    links to features that are installed."""
    if page == "index":
        readme = Path(app.srcdir).parent.joinpath("README.md").read_text()
        # What is no page is a file to load.
        content[0] += re.sub(r"\]\((?!https?:|#|docs/)", "](path:../", readme).replace("](docs/", "](")
    up = "../" * (page.count("/") + 1)
    content[0] = content[0].replace(f"]({up}README.md", f"]({up[3:]}index.md")
    if page in ("decisions/README", "runbooks/README", "tasks/platforms/README"):
        content[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n[!R]*\n```\n"

    def link(found: re.Match[str]) -> str:
        parts = posixpath.normpath(posixpath.join(posixpath.dirname(page), found[2])).split("/")
        missing = parts[0] == "features" and parts[1] not in _FEATURES
        return found[1] if missing else found[0]

    content[0] = _LINK.sub(link, content[0])


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", assembled)
