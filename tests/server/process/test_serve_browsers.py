"""Requests that a web page has a browser send: the live page's own are answered, those of others are not."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.kube_objects import pod
from tests.server.process.product import GOOD, WHOLE, Product, assert_well
from tests.server.process.server_process import Reply, call, connect, request

pytestmark = pytest.mark.process

MANIFEST = json.dumps({"kind": "Pod"} | pod("p", {WHOLE: "1"})).encode()
JSON = "Content-Type: application/json"
ACCEPTED = "application/json, application/yaml, application/x-yaml, text/yaml, text/x-yaml"


@pytest.fixture(scope="module")
def server() -> Iterator[Product]:
    with Product() as process:
        yield process.ready()


def inspect(
    server: Product, path: str, *headers: str, body: bytes = b"", method: str = "GET", host: str = "localhost"
) -> Reply:
    raw = request(path, body, *headers, method=method).replace(
        b"Host: localhost", f"Host: {host}".encode(), 1
    )
    with connect(server.inspect) as sock:
        return call(sock, raw)


def explain(server: Product, *headers: str, host: str = "localhost:8890") -> Reply:
    return inspect(server, "/explain", *headers, body=MANIFEST, method="POST", host=host)


@pytest.mark.parametrize("kind", [*ACCEPTED.split(", "), "APPLICATION/JSON; charset=utf-8", "text/yaml;a=b"])
def test_manifests_are_taken_by_their_type(server: Product, kind: str) -> None:
    assert explain(server, f"Content-Type: {kind}").status == 200


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param((), id="no type, which a browser sends for bytes of none"),
        pytest.param(("Content-Type:",), id="an empty one"),
        pytest.param(("Content-Type: text/plain",), id="text"),
        pytest.param(("Content-Type: text/plain;charset=UTF-8",), id="text with a charset"),
        pytest.param(("Content-Type: application/x-www-form-urlencoded",), id="a form"),
        pytest.param(("Content-Type: multipart/form-data; boundary=x",), id="a form of parts"),
        pytest.param(("Content-Type: text/plain; application/json",), id="JSON as a parameter"),
        pytest.param(("Content-Type: text/plain, application/json",), id="two types"),
        pytest.param(("Content-Type: application/json, text/plain",), id="two types, JSON first"),
        pytest.param(("Content-Type: application/jsonx",), id="one that begins like JSON"),
        pytest.param(("Content-Type: application/octet-stream",), id="bytes"),
    ],
)
def test_another_type_is_a_415_that_names_the_accepted_ones(
    server: Product, headers: tuple[str, ...]
) -> None:
    reply = explain(server, *headers)
    assert reply.status == 415
    assert reply.json()["error"].endswith(f"; send {ACCEPTED}")


def test_a_packed_body_is_a_415(server: Product) -> None:
    reply = explain(server, JSON, "Content-Encoding: gzip")
    assert (reply.status, "send the body as it is" in reply.json()["error"]) == (415, True)


FOREIGN = [
    pytest.param(("Origin: https://evil.example",), id="another site"),
    pytest.param(("Origin: null",), id="a sandboxed frame, or a file"),
    pytest.param(("Origin: ",), id="an empty origin"),
    pytest.param(("Origin: http://localhost:3000",), id="another port of this host"),
    pytest.param(("Origin: http://127.0.0.1:8890",), id="another name of this host"),
    pytest.param(("Origin: http://localhost:8890.evil.example",), id="a name that begins like this one"),
    pytest.param(("Origin: file://localhost:8890",), id="another scheme"),
    pytest.param(("Sec-Fetch-Site: cross-site",), id="another site, by Sec-Fetch-Site"),
    pytest.param(("Sec-Fetch-Site: same-site",), id="another port of this host, by Sec-Fetch-Site"),
    pytest.param(("Sec-Fetch-Site: other",), id="a site of no known kind"),
    pytest.param(
        ("Origin: http://localhost:8890", "Sec-Fetch-Site: cross-site"), id="both, in contradiction"
    ),
    pytest.param(("Origin: https://evil.example", "Sec-Fetch-Site: same-origin"), id="the other way round"),
]


@pytest.mark.parametrize("headers", FOREIGN)
@pytest.mark.parametrize(
    "path",
    ["/explain?pod=a/b", "/inventory", "/pods", "/debug/snapshot", "/debug/ledger", "/page/events", "/page/"],
)
def test_other_pages_get_nothing(server: Product, headers: tuple[str, ...], path: str) -> None:
    reply = inspect(server, path, *headers, host="localhost:8890")
    assert reply.status == 403
    assert "another web page, which may not ask here" in reply.json()["error"]


@pytest.mark.parametrize("headers", FOREIGN)
def test_other_pages_have_nothing_explained(server: Product, headers: tuple[str, ...]) -> None:
    for kind in (JSON, "Content-Type: text/plain"):
        assert explain(server, kind, *headers).status == 403


@pytest.mark.parametrize(
    ("headers", "host"),
    [
        pytest.param((), "localhost:8890", id="no browser"),
        pytest.param(("Sec-Fetch-Site: none",), "localhost:8890", id="typed into the address bar"),
        pytest.param(
            ("Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors"), "localhost:8890", id="the page"
        ),
        pytest.param(("Origin: http://localhost:8890",), "localhost:8890", id="the page, with its origin"),
        pytest.param(("Origin: http://LOCALHOST:8890",), "LocalHost:8890", id="in any case"),
        pytest.param(("Origin: http://[::1]:8890",), "[::1]:8890", id="by IPv6"),
        pytest.param(("Origin: http://localhost",), "localhost", id="at the port of HTTP"),
        pytest.param(("Origin: http://localhost",), "localhost:80", id="which may be named"),
    ],
)
def test_the_page_itself_is_answered(server: Product, headers: tuple[str, ...], host: str) -> None:
    assert inspect(server, "/inventory", *headers, host=host).status == 200
    assert explain(server, JSON, *headers, host=host).status == 200


NAVIGATION = ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        pytest.param("/", NAVIGATION, 302, id="a link to the root"),
        pytest.param("/page/", NAVIGATION, 200, id="a link to the page"),
        pytest.param("/runbooks/GPUExtenderDown", NAVIGATION, 200, id="a link to a runbook, as in an alert"),
        pytest.param(
            "/runbooks/", (NAVIGATION[0], "Sec-Fetch-Mode: no-cors"), 403, id="a script of another page"
        ),
        pytest.param(
            "/page/", (*NAVIGATION[:2], "Sec-Fetch-Dest: iframe"), 403, id="a frame of another page"
        ),
        pytest.param(
            "/page/", (NAVIGATION[0], "Sec-Fetch-Mode: no-cors"), 403, id="an image of another page"
        ),
        pytest.param("/debug/snapshot", NAVIGATION, 403, id="a link to what takes long"),
        pytest.param("/explain?pod=a/b", NAVIGATION, 403, id="a link to an explanation"),
    ],
)
def test_other_pages_may_have_a_link_to_the_live_page_and_to_runbooks_alone(
    server: Product, path: str, headers: tuple[str, ...], status: int
) -> None:
    assert inspect(server, path, *headers).status == status


def test_a_form_may_not_post_to_the_page(server: Product) -> None:
    headers = (*NAVIGATION, "Origin: http://localhost")
    for path in ("/explain", "/page/"):
        assert inspect(server, path, JSON, *headers, body=MANIFEST, method="POST").status == 403


def test_a_preflight_is_not_granted(server: Product) -> None:
    headers = ("Origin: https://evil.example", "Access-Control-Request-Method: POST")
    reply = inspect(server, "/explain", *headers, method="OPTIONS")
    assert reply.status == 403
    assert not [name for name in reply.headers if name.startswith("access-control")]


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "bind"])
@pytest.mark.parametrize(
    "header",
    [
        pytest.param("Origin: https://evil.example", id="another site"),
        pytest.param("Origin: http://localhost", id="this host, which a rebound name would be"),
        pytest.param("Sec-Fetch-Site: cross-site", id="by Sec-Fetch-Site"),
        pytest.param("Sec-Fetch-Site: same-origin", id="this host, by Sec-Fetch-Site"),
    ],
)
def test_no_web_page_is_a_kube_scheduler(server: Product, verb: str, header: str) -> None:
    reply = server.post(verb, GOOD, JSON, header)
    assert reply.status == 403
    assert "web pages may not ask here" in reply.json()["error"]


def test_kube_scheduler_is_answered(server: Product) -> None:
    """With the headers of Go's client."""
    agent = ("User-Agent: kube-scheduler/v1.37.0 (linux/amd64)", "Accept-Encoding: gzip")
    assert_well(server.post("filter", GOOD, JSON, *agent))
