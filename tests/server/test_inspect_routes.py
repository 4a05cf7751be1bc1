"""The inspection listener: which hosts and web pages are answered, and explanations of pods."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from werkzeug.test import TestResponse

from tests.cli.commands import run
from tests.kube_objects import SHARE, Json, gpu, gpu_node, inventory, names_body, node, pod
from tests.server.process.product import WHOLE
from tests.server.served import Served, served

MANIFEST = json.dumps({"kind": "Pod"} | pod("new", {WHOLE: "8"})).encode()
JSON = {"Content_Type": "application/json"}
YAML = {"Content_Type": "application/yaml"}
ACCEPTED = "application/json, application/yaml, application/x-yaml, text/yaml, text/x-yaml"


def objects() -> list[Json]:
    secret = pod("held", {WHOLE: "1"}, on="large")
    secret["metadata"]["namespace"] = "secret"
    return [
        *(gpu_node("large", [gpu(i) for i in range(2)]), node("large", {WHOLE: "2", SHARE: "140000"})),
        *(gpu_node("small", [gpu(0, total=40960)]), node("small", {WHOLE: "1"})),
        *(gpu_node("tainted", [gpu(i) for i in range(8)]), node("tainted", {WHOLE: "8"})),
        *(pod("waiting", {SHARE: "500000"}), pod("running", {WHOLE: "1"}, on="small"), secret),
    ]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path: Path = tmp_path_factory.mktemp("inspect") / "inventory.json"
    path.write_bytes(inventory(*objects()))
    with served(path) as found:
        yield found


@pytest.mark.parametrize(
    ("host", "status"),
    [
        pytest.param("localhost:8890", 200, id="localhost at any port"),
        pytest.param("LOCALHOST", 200, id="in any case"),
        pytest.param("127.8.8.8", 200, id="any address of loopback"),
        pytest.param("[::1]:8890", 200, id="by IPv6"),
        pytest.param("[::1]", 200, id="without a port"),
        pytest.param("rebound.example:8890", 403, id="another name is a page that means harm"),
        pytest.param("localhost.example", 403, id="however it begins"),
        pytest.param("10.0.0.1", 403, id="another address"),
        pytest.param("", 403, id="no name at all"),
        pytest.param("localhost:evil", 403, id="a port that is none"),
    ],
)
def test_only_this_host_is_answered_for(server: Served, host: str, status: int) -> None:
    reply = server.inspect("/debug/ledger", Host=host)
    assert reply.status_code == status
    if status == 403:
        assert reply.json == {"error": f"Host: {host!r} is not this host; use 127.0.0.1, [::1] or localhost"}


@pytest.mark.parametrize("path", ["/page/", "/page/js/main.js", "/page/events", "/page/node?name=x", "/none"])
def test_every_reply_restricts_browsers(server: Served, path: str) -> None:
    headers = server.inspect(path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"] in ("no-store", "no-cache")
    assert "Access-Control-Allow-Origin" not in headers


OURS = {"Host": "localhost:8890"}
CROSS = {"Sec_Fetch_Site": "cross-site"}
FOREIGN = [
    pytest.param({"Origin": "https://evil.example"}, id="another site"),
    pytest.param({"Origin": "null"}, id="a sandboxed frame, or a file"),
    pytest.param({"Origin": "http://localhost:3000"}, id="another port of this host"),
    pytest.param({"Origin": "file://localhost:8890"}, id="another scheme"),
    pytest.param({"Sec_Fetch_Site": "same-site"}, id="another port of this host, by Sec-Fetch-Site"),
    pytest.param({"Origin": "http://localhost:8890"} | CROSS, id="both, in contradiction"),
    pytest.param({"Origin": "https://evil.example", "Sec_Fetch_Site": "same-origin"}, id="or the other way"),
]


@pytest.mark.parametrize("headers", FOREIGN)
def test_other_pages_get_nothing(server: Served, headers: dict[str, str]) -> None:
    reply = server.inspect("/page/events", **(OURS | headers))
    assert reply.status_code == 403
    assert "another web page, which may not ask here" in reply.text


def test_other_pages_have_nothing_explained_and_no_preflight_is_granted(server: Served) -> None:
    foreign = OURS | {"Origin": "https://evil.example"}
    for kind in (JSON, {"Content_Type": "text/plain"}):
        assert sent(server, MANIFEST, **kind, **foreign).status_code == 403
    reply = server.ask(
        "inspect", "/explain", "OPTIONS", headers=foreign | {"Access_Control_Request_Method": "POST"}
    )
    assert reply.status_code == 403
    assert not [name for name in reply.headers.keys() if name.startswith("Access-Control")]  # noqa: SIM118


@pytest.mark.parametrize(
    ("headers", "host"),
    [
        pytest.param({}, "localhost:8890", id="no browser"),
        pytest.param({"Sec_Fetch_Site": "none"}, "localhost:8890", id="typed into the address bar"),
        pytest.param({"Sec_Fetch_Site": "same-origin"}, "localhost:8890", id="the page"),
        pytest.param({"Origin": "http://LOCALHOST:8890"}, "LocalHost:8890", id="in any case"),
        pytest.param({"Origin": "http://[::1]:8890"}, "[::1]:8890", id="by IPv6"),
        pytest.param({"Origin": "http://localhost"}, "localhost:80", id="at the port of HTTP"),
    ],
)
def test_the_page_itself_is_answered(server: Served, headers: dict[str, str], host: str) -> None:
    assert server.inspect("/inventory", Host=host, **headers).status_code == 200
    assert sent(server, MANIFEST, Host=host, **JSON, **headers).status_code == 200


NAVIGATION = CROSS | {"Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}


@pytest.mark.parametrize(
    ("path", "method", "headers", "status"),
    [
        pytest.param("/runbooks/GPUExtenderDown", "GET", NAVIGATION, 200, id="a link to a runbook"),
        pytest.param("/runbooks/", "GET", CROSS | {"Sec_Fetch_Mode": "no-cors"}, 403, id="a script"),
        pytest.param("/page/", "GET", NAVIGATION | {"Sec_Fetch_Dest": "iframe"}, 403, id="a frame"),
        pytest.param("/explain?pod=a/b", "GET", NAVIGATION, 403, id="a link to an explanation"),
    ],
)
def test_other_pages_may_have_a_link_to_runbooks_and_to_no_answer(
    server: Served, path: str, method: str, headers: dict[str, str], status: int
) -> None:
    assert server.ask("inspect", path, method, headers=headers).status_code == status


@pytest.mark.parametrize("kind", [*ACCEPTED.split(", "), "APPLICATION/JSON; charset=utf-8", "text/yaml;a=b"])
def test_manifests_are_taken_by_their_type(server: Served, kind: str) -> None:
    assert sent(server, MANIFEST, Content_Type=kind).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="no type, which a browser sends for bytes of none"),
        pytest.param({"Content_Type": "application/x-www-form-urlencoded"}, id="a form"),
        pytest.param({"Content_Type": "text/plain; application/json"}, id="JSON as a parameter"),
        pytest.param({"Content_Type": "application/json, text/plain"}, id="two types"),
        pytest.param({"Content_Type": "application/jsonx"}, id="one that begins like JSON"),
        pytest.param(JSON | {"Content_Encoding": "gzip"}, id="a packed body"),
    ],
)
def test_another_content_is_a_415(server: Served, headers: dict[str, str]) -> None:
    reply = sent(server, MANIFEST, **headers)
    assert reply.status_code == 415
    assert reply.json["error"].endswith((f"; send {ACCEPTED}", "; send the body as it is"))  # type: ignore[index]


def decide(server: Served, asking: Json, names: list[str]) -> None:
    passed = server.post("filter", names_body(asking, names)).json["NodeNames"]  # type: ignore[index]
    if passed:
        assert server.post("prioritize", names_body(asking, passed)).status_code == 200


def explained(server: Served, name: str, query: str = "") -> Any:
    reply = server.inspect(f"/explain?pod={quote(name, safe='')}{query}")
    assert reply.status_code == 200, reply.text
    return reply.json


def sent(server: Served, body: bytes, **headers: str) -> TestResponse:
    return server.ask("inspect", "/explain", "POST", body, headers)


def test_the_past_decision_and_the_present_one(server: Served) -> None:
    decide(server, pod("p", {WHOLE: "1"}), ["large", "small"])
    answer = explained(server, "default/p")
    assert (answer["kind"], answer["fits"], answer["best"]) == ("Explanation", True, ["large"])
    recorded = answer["recorded"]
    assert (recorded["filters"], recorded["nodesIn"], recorded["nodesOut"]) == (1, 2, 1)
    (now,) = (each for each in answer["nodes"] if each["node"] == "large")
    assert (recorded["best"]["node"], recorded["best"]["total"]) == ("large", now["total"])
    # The worse of the rest is left out.
    few = explained(server, "default/p", "&nodes=1")
    assert ([entry["node"] for entry in few["nodes"]], few["nodesLeftOut"]) == (["large"], 2)


@pytest.mark.parametrize("form", [json.dumps, yaml.safe_dump], ids=["as JSON", "as YAML"])
def test_a_manifest_of_a_pod_that_need_not_exist(server: Served, form: Any) -> None:
    template = {"spec": pod("p", {WHOLE: "8"})["spec"]}
    spec = {"replicas": 2, "template": template}
    asking = {"kind": "Deployment", "metadata": {"name": "web", "namespace": "team"}, "spec": spec}
    answer: Any = sent(server, form(asking).encode(), **YAML).json
    assert (answer["pod"], answer["best"]) == ({"namespace": "team", "name": "web"}, ["tainted"])
    assert (answer["recorded"], len(answer["warnings"])) == (None, 1)


def test_a_manifest_larger_than_kubectl_applies_is_refused_unread(server: Served) -> None:
    reply = sent(server, b"#" * (256 * 1024 + 1), **YAML)
    refused = (413, {"error": "the request body is larger than 262144 bytes"})
    assert (reply.status_code, reply.json) == refused


@pytest.mark.parametrize(
    ("path", "status", "problem"),
    [
        pytest.param("/explain", 400, "pod: ''; ask for ?pod=NAMESPACE/NAME", id="no pod"),
        pytest.param("/explain?pod=p", 400, "pod: 'p'; ask for", id="no namespace"),
        pytest.param("/explain?pod=a/b/c", 400, "pod: 'a/b/c'; ask for", id="two slashes"),
        pytest.param("/explain?pod=default/nobody", 404, "POST its manifest", id="no pod of that name"),
        pytest.param("/explain?pod=default/waiting&nodes=all", 400, "nodes: 'all'; give", id="no number"),
        pytest.param(f"/explain?pod=default/waiting&nodes={'9' * 23}", 400, "nodes: '9", id="too large"),
        pytest.param("/explain?pod=" + quote("<script>/\u202e", safe=""), 404, "<script>/", id="hostile"),
    ],
)
def test_questions_that_cannot_be_answered(server: Served, path: str, status: int, problem: str) -> None:
    reply = server.inspect(path)
    assert (reply.status_code, reply.content_type) == (status, "application/json")
    assert problem in reply.json["error"]  # type: ignore[index]


def asks_more(terms: int = 1, values: int = 1, resources: int = 1, preferred: int = 0) -> bytes:
    """A pod with this much to compare with each node."""
    term = {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["v"] * values}]}
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term] * terms},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}] * preferred,
    }
    limits = {f"example.com/r{i}": "1" for i in range(resources)}
    return json.dumps({"kind": "Pod"} | pod("p", limits, affinity={"nodeAffinity": affinity})).encode()


@pytest.mark.parametrize(
    ("most", "more", "problem"),
    [
        pytest.param({"terms": 50}, {"terms": 51}, "requirements: 102; send at most 100", id="terms"),
        pytest.param({"preferred": 49}, {"preferred": 50}, "requirements: 102; send", id="preferred terms"),
        pytest.param({"values": 1000}, {"values": 1001}, "values: 1001; send at most 1000", id="values"),
        pytest.param({"resources": 100}, {"resources": 101}, "resources: 101; send at most", id="resources"),
    ],
)
def test_more_than_any_real_pod_has_is_refused(
    server: Served, most: dict[str, int], more: dict[str, int], problem: str
) -> None:
    assert sent(server, asks_more(**most), **YAML).status_code == 200
    reply = sent(server, asks_more(**more), **YAML)
    assert reply.status_code == 400
    assert problem in reply.text


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(
            b"kind: Pod\nmetadata: {name: a, namespace: ../x}", "no namespace has a slash", id="a path"
        ),
        pytest.param(
            b"kind: Pod\nmetadata: {name: b/c, namespace: a}", "no name has a slash", id="a path for a name"
        ),
        pytest.param(
            b"kind: Pod\nmetadata: {name: a}\n---\nkind: Pod\nmetadata: {name: b}", "2 pods in it", id="two"
        ),
    ],
)
def test_manifests_that_cannot_be_read(server: Served, body: bytes, problem: str) -> None:
    reply = sent(server, body, **YAML)
    assert reply.status_code == 400, reply.text
    assert problem in reply.json["error"]  # type: ignore[index]


def test_a_snapshot_is_replayed_by_the_command_line_with_the_same_answer(
    server: Served, tmp_path: Path
) -> None:
    decide(server, pod("q", {WHOLE: "4"}), ["large", "small"])
    reply = server.inspect("/debug/snapshot")
    assert (reply.status_code, reply.content_type) == (200, "application/gzip")
    file = tmp_path / "snapshot.json.gz"
    file.write_bytes(reply.data)
    told = run("replay", file, "--pod", "default/q", "-o", "json")
    answer = explained(server, "default/q")
    assert (told.exit_code, json.loads(told.stdout)) == (0 if answer["fits"] else 3, answer)
