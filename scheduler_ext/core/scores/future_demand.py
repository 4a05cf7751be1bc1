"""Scores of what a placement takes from future demand (`core.forecast`), for each GPU of the request."""

import numpy as np

from scheduler_ext.core.framework.criterion import Scoring
from scheduler_ext.core.node.columns import Bools, Floats


def _kept(scoring: Scoring, lost: Floats, most_gpus: float = 1.0) -> Floats:
    """1 if nothing is lost, 0 if `most_gpus` or more are lost for each GPU of the request."""
    kept: Floats = np.clip(1.0 - lost / scoring.gpus / most_gpus, 0.0, 1.0)
    return kept


class ResidualValue:
    """1 if the rest of the GPUs is as valuable as before, beside what the share takes of the largest GPU.
    Whole GPUs lose the same everywhere."""

    name = "residual-value"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.packs and scoring.takes_parts

    def value(self, scoring: Scoring) -> Floats:
        return _kept(scoring, scoring.before.worth - scoring.after.worth - scoring.excess_part)


class Fragmentation:
    """Above one half if the placement makes idle GPUs usable again, below it if it makes some unusable.
    The change of the measure of Weng et al., "Beware of Fragmentation" (USENIX ATC'23), not rounded."""

    name = "fragmentation"
    # The worst case is rarer still: a pod that takes a node's last CPU makes all of its GPUs unusable.
    most_gpus = 2.0

    def applies(self, scoring: Scoring) -> bool:
        return scoring.packs

    def value(self, scoring: Scoring) -> Floats:
        spoilt = (scoring.after.unusable - scoring.before.unusable) / scoring.gpus
        value: Floats = np.clip(0.5 - spoilt / (2 * self.most_gpus), 0.0, 1.0)
        return value


class Balance:
    """1 if the node's remaining CPU keeps its GPUs as valuable to the next pods as before."""

    name = "balance"
    most_gpus = 2.0

    def applies(self, scoring: Scoring) -> bool:
        return scoring.packs and scoring.snapshot.forecast.knows_cpu

    def value(self, scoring: Scoring) -> Floats:
        lost = scoring.before.usable - scoring.after.usable - scoring.excess_part
        return _kept(scoring, lost, self.most_gpus)


class WholeGpus:
    """1 if pods of several GPUs can use as many of the node's whole GPUs as before."""

    name = "whole-gpus"
    most_gpus = 4.0

    def applies(self, scoring: Scoring) -> bool:
        return scoring.packs and scoring.request.asks_gpu

    def value(self, scoring: Scoring) -> Floats:
        return _kept(scoring, scoring.before.runs - scoring.after.runs, self.most_gpus)


class Tightness:
    """1 if no GPU is left idle on the node: of otherwise equal placements, the fullest node, and for a part
    of a GPU first the fullest GPU."""

    name = "tightness"
    most_gpus = 16.0
    # A part of a GPU on a node without pods.
    opened = 0.2
    # Of a share, the node counts for less, and this is the part of its GPU.
    most_gpus_of_share = 64.0
    gpu_part = 0.4
    # A share on a node without pods: just more than the resolution of totals.
    opened_by_share = 0.06

    def applies(self, scoring: Scoring) -> bool:
        return scoring.packs

    def value(self, scoring: Scoring) -> Floats:
        if not scoring.takes_parts:
            # Not for each GPU of the request: an idle GPU is the same whatever the pod takes beside it.
            whole = 1.0 - scoring.after.idle / self.most_gpus
            if scoring.snapshot.some_sliced:
                whole = np.where(self._gets_part(scoring), self._of_part(scoring, whole), whole)
            tight_node: Floats = np.clip(whole, 0.0, 1.0)
            return tight_node
        idle = scoring.after.idle / scoring.gpus / self.most_gpus_of_share
        opened = self.opened_by_share * self._unused(scoring)
        tight: Floats = np.clip(1.0 - idle - self.gpu_part * scoring.left_of_parts - opened, 0.0, 1.0)
        return tight

    def _unused(self, scoring: Scoring) -> Bools:
        """Whether the node has no pods on its GPUs."""
        unused: Bools = scoring.before.idle >= scoring.snapshot.healthy
        return unused

    def _gets_part(self, scoring: Scoring) -> Bools:
        """Whether the pod gets time slices, parts by MPS or MIG instances that are handed out as GPUs."""
        part = np.zeros(len(scoring.snapshot.states), np.bool_)
        for ask, columns in scoring.units:
            if ask.profile is None:
                part |= (columns.mean_gpu_part > 0.0) & (columns.mean_gpu_part < 1.0)
        return part

    def _of_part(self, scoring: Scoring, whole: Floats) -> Floats:
        """For parts of a GPU: the parts of a node's last idle GPU count more, so that a GPU in use is filled
        before another node's is opened, and a node without pods comes after all others."""
        opened = self.opened * self._unused(scoring)
        return whole - self.gpu_part * np.minimum(scoring.after.idle, 1.0) - opened


class ModelScarcity:
    """1 on models that no pod requests, lower with the scarcity of the model and the used part of a GPU."""

    name = "model-scarcity"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.request.asks_gpu and len(scoring.snapshot.cluster.models) > 1

    def value(self, scoring: Scoring) -> Floats:
        scarce = scoring.snapshot.scarcity.take(scoring.snapshot.devices.model)
        return _kept(scoring, scoring.of_units(scarce) + scoring.of_shares(scarce))


class NodeScarcity:
    """1 on nodes whose size no pod needs, lower with the demand for such nodes: the rare large nodes."""

    name = "node-scarcity"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.packs and scoring.request.asks_gpu

    def value(self, scoring: Scoring) -> Floats:
        value: Floats = 1.0 - scoring.snapshot.host_scarcity
        return value


class MigPlaceability:
    """1 if the instance costs future MIG pods nothing, 0 if it costs them a GPU. The device plugin
    picks the instance, so a node is judged by the mean over its GPUs with a free one."""

    name = "mig"

    def applies(self, scoring: Scoring) -> bool:
        cluster = scoring.snapshot.cluster
        return any(bool(cluster.mig_loss(ask.resource).any()) for ask, _ in scoring.units)

    def value(self, scoring: Scoring) -> Floats:
        loss = np.zeros(len(scoring.snapshot.states))
        for ask, _ in scoring.units:
            loss += ask.count * scoring.snapshot.mig_loss(ask.resource)
        value: Floats = np.clip(1.0 - loss, 0.0, 1.0)
        return value
