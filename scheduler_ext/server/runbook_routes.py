"""The runbooks of the alerts, so that the links in alerts work in every installation."""

from pathlib import Path

from flask import Blueprint, Response, abort

_RUNBOOKS = Path(__file__).with_name("runbooks")


def runbooks_blueprint() -> Blueprint:
    """The index and each runbook as text, under the name of its alert. Raises OSError if they are not
    installed."""
    routes = Blueprint("runbooks", __name__)
    texts = {path.stem: path.read_bytes() for path in sorted(_RUNBOOKS.iterdir()) if path.suffix == ".md"}

    # Markdown as plain text: browsers show it, and commands can be copied from it as they are.
    @routes.get("/runbooks/<name>")
    def runbook(name: str) -> Response:
        if name not in texts:
            abort(404)
        return Response(texts[name], content_type="text/plain; charset=utf-8")

    @routes.get("/runbooks/")
    def index() -> Response:
        return runbook("README")

    return routes
