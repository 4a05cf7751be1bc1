"""The scores and their default weights."""

from scheduler_ext.core.framework.criterion import Score
from scheduler_ext.core.scores import future_demand
from scheduler_ext.core.scores.preferences import BestFitScore, ModelPreference, NodeHealth, Priority, Spot
from scheduler_ext.core.scores.value import Value

SCORES: tuple[Score, ...] = (
    future_demand.ResidualValue(),
    future_demand.Fragmentation(),
    future_demand.Balance(),
    future_demand.WholeGpus(),
    future_demand.Tightness(),
    Value(),
    future_demand.ModelScarcity(),
    future_demand.NodeScarcity(),
    BestFitScore(),
    future_demand.MigPlaceability(),
    ModelPreference(),
    NodeHealth(),
    Priority(),
    Spot(),
)

# A total is the mean of the terms that apply, by these weights. A pod's own settings (the order of its
# models, its priority) outweigh the operator's; packing terms decide among the rest.
# docs/concepts/placement.md explains how the weights of the first seven were found.
DEFAULT_WEIGHTS: dict[str, float] = {
    "residual-value": 0.25,
    "fragmentation": 0.1,
    "balance": 0.3,
    "whole-gpus": 0.02,
    "tightness": 0.03,
    "value": 0.42,
    "model-scarcity": 0.3,
    "node-scarcity": 0.03,
    "best-fit": 0.2,
    "mig": 0.3,
    "model-preference": 5.0,
    "health": 0.2,
    "priority": 2.0,
    "spot": 1.0,
}
