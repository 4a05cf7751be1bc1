"""Requirements beside an extender that binds, and rules for policies that change pods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import yaml

from scheduler_ext.core.gpu.model_table import MODEL_ROWS
from tests.manifests.configuration_rules import extender_configurations, scheduler_configurations
from tests.manifests.objects import Json, entries, of_kind, title

# Each of these rights lets its holder write to a pod.
_WRITTEN = {
    ("pods", "CREATE"),
    ("pods", "UPDATE"),
    ("pods/*", "CREATE"),
    ("pods/*", "UPDATE"),
    ("bindings", "CREATE"),
}

# Without it, the extender decides alone.
_DISPENSABLE = {"gpu-scheduler-model-affinity"}


def mutations_hold(objects: Sequence[Json]) -> Iterator[str]:
    bound = {each["spec"]["policyName"] for each in of_kind(objects, "MutatingAdmissionPolicyBinding")}
    for policy in of_kind(objects, "MutatingAdmissionPolicy"):
        name = policy["metadata"]["name"]
        if name not in bound:
            yield f"{title(policy)}: nothing binds it"
        if policy["spec"].get("failurePolicy", "Fail") != "Fail" and name not in _DISPENSABLE:
            yield f"{title(policy)}: lets pass what it fails on"
        if policy["spec"].get("reinvocationPolicy") != "IfNeeded":
            yield f"{title(policy)}: what comes after it would be left as it is"


def who_assigns_is_guarded(objects: Sequence[Json]) -> Iterator[str]:
    binds = any(
        extender.get("bindVerb")
        for configuration in scheduler_configurations(objects)
        for extender in entries(configuration, "extenders")
    )
    guarded = {
        (resource, operation)
        for policy in of_kind(objects, "ValidatingAdmissionPolicy")
        if policy["metadata"]["name"].endswith("-assignment")
        for rule in entries(policy, "spec", "matchConstraints", "resourceRules")
        for resource in entries(rule, "resources")
        for operation in entries(rule, "operations")
    }
    if binds:
        for resource, operation in sorted(_WRITTEN - guarded):
            yield f"bindVerb, and no policy says who may assign GPUs by {operation} of {resource}"


def policies_know_the_schedulers(objects: Sequence[Json]) -> Iterator[str]:
    profiles = [
        profile.get("schedulerName")
        for configuration in scheduler_configurations(objects)
        for profile in entries(configuration, "profiles")
    ]
    for where, known in _variables(objects, "schedulers"):
        if yaml.safe_load(known) != profiles:
            yield f"{where}: schedulers {known} are not the profiles {profiles}"


def policies_know_the_resource(objects: Sequence[Json]) -> Iterator[str]:
    """A pod that requests a share by another name passes all of them."""
    for configuration in extender_configurations(objects):
        name = configuration.resources.memory_share
        for where, known in _variables(objects, "share"):
            if configuration.bind.enabled and yaml.safe_load(known) != name:
                yield f"{where}: knows shares as {known}, not as {name}"


def policies_know_the_gpus(objects: Sequence[Json]) -> Iterator[str]:
    for where, known in _variables(objects, "models"):
        missing = {row.name for row in MODEL_ROWS}.symmetric_difference(yaml.safe_load(known))
        if missing:
            yield f"{where}: models differ from the table in {', '.join(sorted(missing))}"
    for configuration in extender_configurations(objects):
        names = [*configuration.resources.whole_gpu, configuration.resources.memory_share]
        for where, known in _variables(objects, "resources"):
            if yaml.safe_load(known) != names:
                yield f"{where}: resources {known} are not the configured ones, {', '.join(names)}"


def _variables(objects: Sequence[Json], name: str) -> Iterator[tuple[str, str]]:
    """(where, expression) of the variables of policies that have this name."""
    for policy in of_kind(objects, "MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"):
        for variable in entries(policy, "spec", "variables"):
            if variable["name"] == name:
                yield title(policy), variable["expression"]


RULES = (
    mutations_hold,
    who_assigns_is_guarded,
    policies_know_the_schedulers,
    policies_know_the_resource,
    policies_know_the_gpus,
)
