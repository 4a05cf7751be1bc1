"""The kubelet's PodResources API on a unix socket, with the errors, silence and restarts of tests."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent import futures
from functools import partial
from pathlib import Path

import grpc

from scheduler_ext.agent.pod_resources_pb2 import (
    AllocatableResourcesResponse,
    ContainerDevices,
    ContainerResources,
    ListPodResourcesResponse,
    PodResources,
)

Failure = tuple[grpc.StatusCode, str]


def devices(resource: str, *ids: str) -> list[ContainerDevices]:
    """One entry for each device, as kubelet writes them."""
    return [ContainerDevices(resource_name=resource, device_ids=[device_id]) for device_id in ids]


def pod(
    name: str, *entries: ContainerDevices, namespace: str = "ml", container: str = "main"
) -> PodResources:
    """A pod of one container."""
    return PodResources(
        name=name, namespace=namespace, containers=[ContainerResources(name=container, devices=entries)]
    )


class FakeKubelet:
    """A server to be started, stopped and started again on the same path; `calls` are the methods asked."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.pods: list[PodResources] = []
        self.offered: list[ContainerDevices] = []
        self.failure: Failure | None = None
        self.raw: bytes | None = None
        self.missing: set[str] = set()
        # Methods that answer with the rate limit.
        self.refused: set[str] = set()
        self.calls: list[str] = []
        self._released = threading.Event()
        self._released.set()
        self._server: grpc.Server | None = None

    def start(self) -> None:
        """Serve on its own socket, as the kubelet does: a file on the path is removed first."""
        self.socket.unlink(missing_ok=True)
        server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
        handler: Callable[..., grpc.RpcMethodHandler[bytes, bytes]] = grpc.unary_unary_rpc_method_handler
        methods = {name: handler(partial(self.answer, name)) for name in ("List", "GetAllocatableResources")}
        lister = grpc.method_handlers_generic_handler("v1.PodResourcesLister", methods)
        server.add_generic_rpc_handlers((lister,))
        assert server.add_insecure_port(f"unix://{self.socket}")
        server.start()
        self._server = server

    def stop(self) -> None:
        """No more answers; the socket is gone."""
        self.release()
        if self._server is not None:
            self._server.stop(None).wait()
            self._server = None
        self.socket.unlink(missing_ok=True)

    def hang(self) -> None:
        """Take calls from now on without answering."""
        self._released.clear()

    def release(self) -> None:
        """Answer again."""
        self._released.set()

    def answer(self, method: str, request: bytes, context: grpc.ServicerContext) -> bytes:
        """The bytes for one call, after injected faults."""
        if method in self.missing:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        self.calls.append(method)
        self._released.wait(60)
        if method in self.refused:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        if self.failure is not None:
            context.abort(*self.failure)
        return self.raw if self.raw is not None else self._answer(method)

    def _answer(self, method: str) -> bytes:
        if method == "List":
            return ListPodResourcesResponse(pod_resources=self.pods).SerializeToString()
        return AllocatableResourcesResponse(devices=self.offered).SerializeToString()
