"""The cluster of a command: a file, standard input, or a live cluster; and the namespace of its pods."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
import yaml

from scheduler_ext.cli import answers
from scheduler_ext.cluster.client import transport as transport_module
from tests.cli.commands import CLUSTER, CONFIGURED, WHOLE, Written, error_of, of_all_sources, run, serving
from tests.cluster.api.api_faults import Hang, Refuse
from tests.cluster.api.api_paths import GPU_NODES, NODES
from tests.cluster.api.api_requests import lists
from tests.cluster.api.api_server import ApiServer
from tests.kube_objects import Json, gpu, gpu_node, node, pod

ANSWERED = "Note: answered from the cluster's objects, because no extender is available: "


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with serving(*CLUSTER) as running:
        yield running


@pytest.fixture
def kubeconfig(server: ApiServer, tmp_path: Path) -> Path:
    return server.kubeconfig(tmp_path / "kubeconfig")


@pytest.mark.parametrize("command", ["inventory", "explain -f POD", "capacity -f POD"])
def test_all_sources_answer_alike(cluster: Path, kubeconfig: Path, written: Written, command: str) -> None:
    asking = str(written("pod.yaml", pod("p", {WHOLE: "1"}, schedulerName="gpu-scheduler")))
    words = [asking if word == "POD" else word for word in command.split()]
    named, *others = of_all_sources(words, "--inventory", cluster, kubeconfig)
    assert (named.exit_code, named.stderr) == (0, "")
    assert named.stdout != ""
    assert [(each.stdout, each.stderr) for each in others] == [(named.stdout, "")] * 3


def test_what_labels_do_not_say_is_unknown(written: Written) -> None:
    """Labels say that some GPUs are there, and neither their number nor what is free."""
    invalid = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-INVALID", "nvidia.com/gpu.count": "0"}
    found = run("inventory", "--inventory", written("nodes.yaml", node("n", labels=invalid)))
    row = found.stdout.splitlines()[1].split()
    assert row == ["n", "Fresh", "labels", "-", "0", "0", "0", "-", "unknown", "-"]


def test_a_report_that_is_refused_is_a_warning_and_marked(server: ApiServer, kubeconfig: Path) -> None:
    server.store.put(GPU_NODES, gpu_node("labels-1", [gpu(0), gpu(0, "GPU-1")]))
    result = run("inventory", "--kubeconfig", kubeconfig)
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: GPUNode labels-1: status.devices[1].index")
    assert result.stderr.count("\n") == 1
    assert "Note: labels-1: its report is refused, labels are shown" in result.stdout


def test_pods_without_gpus_count_for_filters_of_kube_scheduler(
    server: ApiServer, kubeconfig: Path, written: Written
) -> None:
    for name, phase in (("large", "Running"), ("over", "Succeeded")):
        server.store.put("/api/v1/pods", pod(name, {"cpu": "60"}, on="unseen-1", phase=phase))
    asking = written("pod.yaml", pod("p", {WHOLE: "1", "cpu": "5"}))
    told = json.loads(run("explain", "-f", asking, "--kubeconfig", kubeconfig, "-o", "json").stdout)
    assert {each["node"]: each["reason"] for each in told["nodes"]}["unseen-1"] == "Insufficient cpu"


def quota(name: str, hard: str) -> Json:
    """A ResourceQuota of which one GPU is used."""
    spec, status = {"hard": {f"requests.{WHOLE}": hard}}, {"used": {f"requests.{WHOLE}": "1"}}
    metadata = {"name": name, "namespace": "default"}
    return {"kind": "ResourceQuota", "metadata": metadata, "spec": spec, "status": status}


def test_a_quota_of_the_cluster_and_one_beside_the_pod_are_notes(
    server: ApiServer, kubeconfig: Path, written: Written
) -> None:
    server.store.put("/api/v1/resourcequotas", quota("there", "1"))
    pods = yaml.safe_dump_all([quota("beside", "0"), pod("p", {WHOLE: "1"}, schedulerName="gpu-scheduler")])
    told = run("explain", "-f", written("pods.yaml", pods), "--kubeconfig", kubeconfig).output
    assert "ResourceQuota default/there: 1 of 1 requests.nvidia.com/gpu are used" in told
    assert "ResourceQuota default/beside: 1 of 0 requests.nvidia.com/gpu are used" in told


@pytest.mark.parametrize(("setting", "best"), [("allow", ["plain"]), ("refuse", [])])
def test_nodes_without_a_report_take_gpus_where_the_configuration_says_so(
    tmp_path: Path, written: Written, setting: str, best: list[str]
) -> None:
    plain = node("plain", {WHOLE: "4"})
    plain["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    config = written("config.yaml", CONFIGURED | {"inventory": {"unreported": setting}})
    asking = written("pod.yaml", pod("p", {WHOLE: "1"}))
    with serving(plain) as server:
        live = ("--kubeconfig", server.kubeconfig(tmp_path / "kubeconfig"), "--config", config, "-o", "json")
        assert json.loads(run("explain", "-f", asking, *live).stdout)["best"] == best
        (listed,) = json.loads(run("inventory", *live).stdout)["items"]
    assert (listed["state"], listed["byAllocatable"]) == ("Missing", setting == "allow")


class TestFaults:
    @pytest.fixture
    def strangers_port(self) -> Iterator[int]:
        """Of a server with an unknown certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def greet() -> None:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    # Another server answered, and the test is over.
                    return
                try:
                    context.wrap_socket(connection, server_side=True).close()
                except OSError:
                    connection.close()

            greeting = threading.Thread(target=greet)
            greeting.start()
            yield listener.getsockname()[1]
            listener.shutdown(socket.SHUT_RDWR)
            greeting.join()

    @pytest.mark.parametrize(
        "command", ["nodes", "nodes --from extender", "nodes --from cluster", "inventory"]
    )
    @pytest.mark.parametrize(
        ("address", "problem"),
        [
            ("https://127.0.0.1:1", "127.0.0.1:1: Connection refused"),
            (
                "https://127.0.0.1:{tls}",
                "certificate verify failed: unable to get local issuer certificate",
            ),
        ],
        ids=["no listener", "a certificate of another host"],
    )
    def test_a_server_that_cannot_be_reached(
        self,
        kubeconfig: Path,
        server: ApiServer,
        strangers_port: int,
        command: str,
        address: str,
        problem: str,
    ) -> None:
        kubeconfig.write_text(kubeconfig.read_text().replace(server.url, address.format(tls=strangers_port)))
        told = error_of(run(*command.split(), "--kubeconfig", kubeconfig))
        assert told == f"kubeconfig {kubeconfig}: {problem}"

    def test_a_silent_server_is_asked_once(
        self, server: ApiServer, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(answers, "_FIND_S", 0.1)
        monkeypatch.setattr(transport_module, "READ_S", 0.1)
        hanging = server.faults.place(Hang())
        problem = error_of(run("nodes", "--kubeconfig", kubeconfig))
        hanging.lift()
        assert problem == f"kubeconfig {kubeconfig}: 127.0.0.1:{server.port}: no answer in time"
        assert server.log.count() == 1

    def test_the_note_comes_with_an_answer_alone(self, server: ApiServer, kubeconfig: Path) -> None:
        done = run("nodes", "--kubeconfig", kubeconfig)
        assert (done.exit_code, done.stderr.startswith(ANSWERED)) == (0, True)
        server.faults.place(Refuse(403, "Forbidden", "may not list nodes"), lists(NODES), times=2)
        for command in ("nodes", "inventory"):
            problem = error_of(run(command, "--kubeconfig", kubeconfig))
            assert problem == f"kubeconfig {kubeconfig}: 403 Forbidden: may not list nodes"


class TestNamespaces:
    """The context is in the namespace research."""

    COMMANDS = ("capacity -f", "explain -f")

    @pytest.fixture
    def research(self, kubeconfig: Path) -> Path:
        config = json.loads(kubeconfig.read_text())
        config["contexts"][0]["context"]["namespace"] = "research"
        kubeconfig.write_text(json.dumps(config))
        return kubeconfig

    @staticmethod
    def asking(namespace: str | None = None) -> Json:
        asked = pod("p", {WHOLE: "1"}, priority=9)
        del asked["metadata"]["namespace"]
        if namespace is not None:
            asked["metadata"]["namespace"] = namespace
        return asked

    @pytest.mark.parametrize(
        ("named", "arguments", "where"),
        [
            pytest.param(None, [], "research", id="the manifest names none: that of the context"),
            pytest.param(None, ["-n", "web"], "web", id="the manifest names none: the one that is given"),
            pytest.param("web", [], "web", id="the manifest names one: that one"),
        ],
    )
    @pytest.mark.parametrize("command", COMMANDS)
    def test_of_a_manifest(
        self,
        research: Path,
        written: Written,
        command: str,
        named: str | None,
        arguments: list[str],
        where: str,
    ) -> None:
        path = written("pod.yaml", self.asking(named))
        done = run(*command.split(), path, "--kubeconfig", research, *arguments, "-o", "json")
        told = json.loads(done.stdout)
        assert told["pod"] == {"namespace": where, "name": "p"}

    def test_of_a_file_it_is_default_or_the_given_one(self, cluster: Path, written: Written) -> None:
        asked = ("capacity", "-f", written("pod.yaml", self.asking()), "--inventory", cluster)
        assert "default/p" in run(*asked).stdout
        assert "web/p" in run(*asked, "-n", "web").stdout

    def test_a_manifest_of_another_namespace_than_the_one_given(
        self, research: Path, written: Written
    ) -> None:
        path = written("pod.yaml", self.asking("web"))
        problem = error_of(run("explain", "-f", path, "--kubeconfig", research, "-n", "research"))
        assert problem == f"{path}: Pod web/p is not in namespace research; give -n web, or none"
