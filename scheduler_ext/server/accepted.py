"""Accepted requests: by the type of their body, and by the web page from which a browser sends them. A web
page may have a browser send a "simple" request anywhere, also to a listener on loopback: a GET, or a POST of
text, of a form, or without a type. The page cannot read the answer, but the server works for it."""

from collections.abc import Mapping
from typing import Final

from werkzeug.http import parse_options_header

from scheduler_ext.core.errors import RequestError

# Before a browser sends one of these for another page, it asks the server. It does not ask for forms, for
# text/plain, and for a body without a type.
MANIFEST_TYPES = ("application/json", "application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")
_SAME_PAGE: Final = ("same-origin", "none")
# Another page may contain links to these.
_LINKED_PATHS: Final = ("/", "/page", "/page/")
_RUNBOOKS_PATH: Final = "/runbooks/"


def check_content(environ: Mapping[str, str], types: tuple[str, ...], send: str) -> None:
    """Raises RequestError (415) for a compressed body, or one of another type; "" is a body without a
    type."""
    encoding = environ.get("HTTP_CONTENT_ENCODING", "")
    if encoding.lower() not in ("", "identity"):
        raise RequestError(415, f"Content-Encoding: {encoding[:80]!r}; send the body as it is")
    kind = environ.get("CONTENT_TYPE", "")
    if kind not in types and parse_options_header(kind)[0].lower() not in types:
        raise RequestError(415, f"Content-Type: {kind[:80]!r}; send {send}")


def refuse_browsers(environ: Mapping[str, str]) -> None:
    """Raises RequestError (403) for a request of any web page."""
    for header, key in (("Origin", "HTTP_ORIGIN"), ("Sec-Fetch-Site", "HTTP_SEC_FETCH_SITE")):
        if key in environ:
            raise RequestError(403, f"{header}: {environ[key][:80]!r}; web pages may not ask here")


def refuse_other_pages(environ: Mapping[str, str]) -> None:
    """Raises RequestError (403) for a request of another origin's page, except a link to the live page or
    a runbook."""
    origin = environ.get("HTTP_ORIGIN")
    if origin is not None and _host(origin) != environ.get("HTTP_HOST", "").lower().removesuffix(":80"):
        raise RequestError(403, f"Origin: {origin[:80]!r} is another web page, which may not ask here")
    site = environ.get("HTTP_SEC_FETCH_SITE", "none")
    # A browser opens the live page or a runbook, in a window or tab of its own.
    path = environ.get("PATH_INFO", "")
    is_link = (
        environ.get("REQUEST_METHOD") in ("GET", "HEAD")
        and (path in _LINKED_PATHS or path.startswith(_RUNBOOKS_PATH))
        and environ.get("HTTP_SEC_FETCH_MODE") == "navigate"
        and environ.get("HTTP_SEC_FETCH_DEST") == "document"
    )
    if site not in _SAME_PAGE and not is_link:
        raise RequestError(403, f"Sec-Fetch-Site: {site[:80]!r} is another web page, which may not ask here")


def _host(origin: str) -> str | None:
    """The host of an HTTP origin; None for any other, such as null."""
    scheme, separator, host = origin.lower().partition("://")
    return host.removesuffix(":80") if separator and scheme in ("http", "https") else None
