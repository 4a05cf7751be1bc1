"""The page's routes: its files, the stream of changes, and one node in full. `static/` is served unchanged:
ES modules, one style sheet, and lit-html. Only `named` and `visible` (`js/text.js`) insert names, as text;
`style` is set as a property, because the content security policy forbids the attribute."""

from pathlib import Path

from flask import Blueprint, Response, abort, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from scheduler_ext.features.page.feed import LastEventId, PageFeed
from scheduler_ext.server.replies import compressed
from scheduler_ext.views.ledger_dump import node_ledger
from scheduler_ext.views.listing import inventory_list
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.extender_args import encode_json

# Each reply to a stream of events is complete, and the browser comes back for the next: no page occupies a
# thread that another request waits for.
_COME_BACK_MS = 1000
_COME_BACK_SOON_MS = 150
_STATIC = Path(__file__).with_name("static")
# Files of other types (licences, notes) are not served.
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def read_assets() -> dict[str, tuple[bytes, str]]:
    """Content and type of the page's own files, by path."""
    return {
        file.relative_to(_STATIC).as_posix(): (file.read_bytes(), _TYPES[file.suffix])
        for file in _STATIC.rglob("*")
        if file.suffix in _TYPES
    }


def page_blueprint(feed: PageFeed, config: Configuration) -> Blueprint:
    """The page over a feed that its caller starts and stops. It loads no other files than its own."""
    page = Blueprint("page", __name__)
    assets = read_assets()

    @page.get("/")
    def front() -> AnyResponse:
        return redirect("page/")

    @page.get("/page/")
    def index() -> Response:
        return asset("index.html")

    @page.get("/page/<path:path>")
    def asset(path: str) -> Response:
        if path not in assets:
            abort(404)
        content, content_type = assets[path]
        response = Response(content, content_type=content_type)
        response.add_etag()
        # Not cached, so that a new version of the extender shows its new page at once.
        response.headers["Cache-Control"] = "no-cache"
        response.make_conditional(request.environ)
        return response

    @page.get("/page/events")
    def events() -> Response:
        seen = LastEventId.parse(request.headers.get("Last-Event-ID") or request.args.get("seen", ""))
        change = feed.since(seen)
        if change is None:
            wait = f"retry: {_COME_BACK_SOON_MS}\nevent: wait\ndata: "
            return _events(wait.encode() + encode_json({"status": feed.status()}) + b"\n\n")
        now, state = change
        # JSON has no line ends of its own, so one line of data is enough.
        head = f"retry: {_COME_BACK_MS}\nid: {now}\nevent: change\ndata: ".encode()
        return _events(head + state + b"\n\n")

    @page.get("/page/node")
    def node() -> Response:
        snapshot = feed.source.snapshot
        name = request.args.get("name", "")
        found = snapshot.nodes.get(name) if snapshot is not None else None
        if found is None:
            return Response(encode_json({"error": "no such node"}), 404, content_type="application/json")
        status = feed.source.status()
        listed = inventory_list([found.info], config, status.report_ages_s, readings=status.readings)
        items = listed["items"]
        ledger = node_ledger(found.info, config.resource_names())
        body = encode_json({"node": items[0] if items else None, "ledger": ledger})
        return Response(body, content_type="application/json")

    return page


def _events(body: bytes) -> Response:
    response = Response(content_type="text/event-stream")
    response.headers["Cache-Control"] = "no-store"
    return compressed(response, body)
