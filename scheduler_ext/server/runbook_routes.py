"""The runbooks of the alerts, so that the links in alerts work in every installation."""

import html
import posixpath
import re
from collections.abc import Collection
from pathlib import Path

from flask import Blueprint, Response, abort, current_app

_RUNBOOKS = Path(__file__).with_name("runbooks")
# Their folder in the sources, from which their links start.
_SOURCE = "docs/runbooks"
_INDEX = "README"
_LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
# Markdown as it is, in the style of the live page: commands can be copied from it, and no library renders it.
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<link rel="stylesheet" href="../page/page.css">
</head>
<body>
<p><a href="./">All runbooks</a>{live_page}</p>
<pre class="runbook">{text}</pre>
</body>
</html>
"""
# Where a feature serves it.
_LIVE_PAGE = ' · <a href="../page/">Live page</a>'


def runbooks_blueprint() -> Blueprint:
    """The index and each runbook, under the name of its alert: as a page, and with .md as text. Raises
    OSError if they are not installed."""
    routes = Blueprint("runbooks", __name__)
    texts = {path.stem: path.read_text("utf-8") for path in _RUNBOOKS.iterdir() if path.suffix == ".md"}
    linked = {name: _linked(text, texts) for name, text in texts.items()}

    @routes.get("/runbooks/<name>")
    def runbook(name: str) -> Response:
        stem = name.removesuffix(".md")
        if stem not in texts:
            abort(404)
        if stem != name:
            return Response(texts[stem], content_type="text/plain; charset=utf-8")
        served = any(rule.rule == "/page/" for rule in current_app.url_map.iter_rules())
        page = _PAGE.format(title=name, live_page=_LIVE_PAGE if served else "", text=linked[name])
        return Response(page, content_type="text/html; charset=utf-8")

    @routes.get("/runbooks/")
    def index() -> Response:
        return runbook(_INDEX)

    return routes


def _linked(text: str, served: Collection[str]) -> str:
    """Markdown as the content of an element, with links to the other runbooks and to addresses. A link to
    another page of the documentation, which is not served, becomes its path in the sources."""
    parts, end = [], 0
    for link in _LINK.finditer(text):
        parts.append(html.escape(text[end : link.start()], quote=False))
        end = link.end()
        words, target = html.escape(link[1], quote=False), link[2]
        name = target.partition("#")[0].removesuffix(".md")
        if name in served:
            parts.append(f'<a href="{name}">{words}</a>')
        elif "://" in target:
            parts.append(f'<a href="{html.escape(target)}">{words}</a>')
        else:
            parts.append(f"{words} ({html.escape(posixpath.normpath(f'{_SOURCE}/{target}'), quote=False)})")
    return "".join([*parts, html.escape(text[end:], quote=False)])
