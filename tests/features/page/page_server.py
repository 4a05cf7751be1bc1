"""The page over nodes that a test chooses, stale and missing ones too, which no inventory file can hold."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, Self, cast

from werkzeug.serving import WSGIRequestHandler, make_server

from scheduler_ext.core.node.node import NodeInfo, PendingPod
from scheduler_ext.explain.explainer import Explainer
from scheduler_ext.explain.waiting import WaitingPods
from scheduler_ext.features.page.feed import PageFeed
from scheduler_ext.features.page.pod_routes import pods_blueprint
from scheduler_ext.features.page.routes import page_blueprint
from scheduler_ext.features.page.serving import PageServing
from scheduler_ext.server.app import inspect_app
from scheduler_ext.server.explaining import Explaining
from scheduler_ext.server.metrics.registry import gpu_text
from scheduler_ext.server.serving import Served, servings
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import read_pods
from scheduler_ext.wire.pod.cached_pod import pending_pod
from tests.kube_objects import inventory, pod
from tests.server.followed import Followed

_SOME_POD = pending_pod(read_pods(inventory(pod("some")))[0], Configuration().resource_names())


class _Silent(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        pass


class PageServer(Followed):
    """A source with the nodes that a test sets, an extender on it, and the page; `pending_lines` are shown
    unchanged."""

    def __init__(
        self,
        infos: Iterable[NodeInfo] = (),
        pending_lines: Sequence[dict[str, Any]] = (),
        config: Configuration | None = None,
    ) -> None:
        super().__init__(config=config)
        config = self.config
        self.set(infos)
        self.pending_lines = list(pending_lines)
        features, extender = servings(config), self.extender
        self.features = features
        self.feed = PageFeed(
            self,
            extender.record,
            self.lines,
            config.resource_names(),
            config.memory.headroom_percent,
            config.idle_after_s(),
            features,
        )
        explaining = Explaining(Explainer(self, extender.record, config, extender.preemption_answers))
        waiting = cast(WaitingPods, self)
        served = Served(config, self, extender, explaining, waiting, gpu_text(self, config), features)
        others = [each.join(served) for each in features.features if not isinstance(each, PageServing)]
        app = inspect_app(
            page_blueprint(self.feed, config),
            pods_blueprint(self, explaining, features),
            *(routes for part in others for routes in part.routes),
        )
        self._server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Silent)
        self.url = f"http://127.0.0.1:{self._server.server_port}/page/"

    def lines(self) -> list[dict[str, Any]]:
        """As of `WaitingPods`."""
        return self.pending_lines

    def pending(self) -> Sequence[PendingPod]:
        # Lines alone stand for pods of which only the number matters.
        return self.pods or [_SOME_POD] * len(self.pending_lines)

    def __enter__(self) -> Self:
        self.feed.start()
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()
        self.feed.stop()
