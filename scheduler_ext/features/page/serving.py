"""What the live page does in `serve`: its routes, and the thread that keeps its data ready."""

import json

from scheduler_ext.features.page.feed import PageFeed
from scheduler_ext.features.page.history import PAST_FILE, Sample
from scheduler_ext.features.page.pod_routes import pods_blueprint
from scheduler_ext.features.page.routes import page_blueprint
from scheduler_ext.server.serving import Parts, Served, Serving
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.files import read_file


class PageServing(Serving):
    """Follows the source of a server."""

    def join(self, served: Served) -> Parts:
        config, source = served.config, served.source
        feed = PageFeed(
            source,
            served.extender.record,
            served.waiting.lines,
            config.resource_names(),
            config.memory.headroom_percent,
            config.idle_after_s(),
            served.features,
        )
        past = served.demo_folder / PAST_FILE if served.demo_folder is not None else None
        for earlier in json.loads(read_file(past)) if past is not None else ():
            feed.history.add(Sample(*earlier))
        routes = page_blueprint(feed, config), pods_blueprint(source, served.explaining, served.features)
        return Parts(routes=routes, loops=(feed,))


def serving(_: Configuration) -> Serving:
    """It is always on."""
    return PageServing()
