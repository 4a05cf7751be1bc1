"""What autoscaling does in `serve`: it removes startup taints, counts the refusals that an autoscaler does
not see, and creates placeholders where they are enabled."""

from __future__ import annotations

from scheduler_ext.background import Background
from scheduler_ext.cluster.following import Following, Live
from scheduler_ext.extender.answer import Answer
from scheduler_ext.features.autoscaling import counters as counters  # They show in any case.
from scheduler_ext.features.autoscaling.blind_rejections import BlindRejections
from scheduler_ext.features.autoscaling.settings import AutoscalerSection
from scheduler_ext.server.serving import Parts, Served, Serving
from scheduler_ext.wire.config import Configuration


class AutoscalingServing(Serving):
    """Counts from the first answer after it has joined a server."""

    def __init__(self, config: Configuration) -> None:
        self._config = config
        self._blind: BlindRejections | None = None

    def follow(self, live: Live) -> Following:
        from scheduler_ext.features.autoscaling.startup_taints import StartupTaints

        say, resources = live.recorder.write, self._config.resource_names()
        taints = StartupTaints(live.transport, live, resources, say, live.recorder.warn)
        loops: list[Background] = [taints]
        if self._config.of(AutoscalerSection).placeholders.enabled:
            from scheduler_ext.features.autoscaling.placeholders.placeholder_writer import PlaceholderWriter

            extender = live.extender
            loops.append(
                PlaceholderWriter(
                    live.transport, live, extender.record, extender.new_nodes, self._config, say
                )
            )
        return Following(nodes=(taints,), loops=loops)

    def join(self, served: Served) -> Parts:
        self._blind = BlindRejections(served.extender.new_nodes)
        return Parts(loops=(self._blind,))

    def answered(self, verb: str, answer: Answer) -> None:
        if self._blind is not None:
            self._blind.answered(verb, answer)


serving = AutoscalingServing
