"""The policy that every rendered manifest is held to: one function per rule, each yielding what breaks it."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import yaml

Json = dict[str, Any]
Rule = Callable[[Sequence[Json]], Iterator[str]]

_FORBIDDEN_VERBS = {"escalate", "bind", "impersonate"}
_WORKER_VARIABLES = {"GUNICORN_CMD_ARGS", "WEB_CONCURRENCY"}
_CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
_PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def violations(objects: Sequence[Json]) -> list[str]:
    """Everything that breaks a rule, in words; nothing for what may be shipped."""
    return [broken for rule in RULES for broken in rule(objects)]


def of_kind(objects: Sequence[Json], *kinds: str) -> list[Json]:
    return [each for each in objects if each["kind"] in kinds]


def containers(objects: Sequence[Json]) -> Iterator[tuple[str, Json]]:
    """(where, container) of every Deployment and DaemonSet."""
    for where, spec in pods(objects):
        for container in spec["containers"]:
            yield f"{where}/{container['name']}", container


def scheduler_configurations(objects: Sequence[Json]) -> Iterator[Json]:
    for config_map in of_kind(objects, "ConfigMap"):
        for text in config_map.get("data", {}).values():
            if "kind: KubeSchedulerConfiguration" in text:
                yield yaml.safe_load(text)


def all_nodes_are_looked_at(objects: Sequence[Json]) -> Iterator[str]:
    for configuration in scheduler_configurations(objects):
        percentage = configuration.get("percentageOfNodesToScore")
        if percentage != 100:
            yield f"percentageOfNodesToScore is {percentage}, not 100"


def the_way_to_the_extender_is_safe(objects: Sequence[Json]) -> Iterator[str]:
    for configuration in scheduler_configurations(objects):
        if not configuration.get("extenders"):
            yield "there is no extender"
        for extender in configuration.get("extenders", ()):
            yield from _extender_violations(extender)


def _extender_violations(extender: Json) -> Iterator[str]:
    url = urlsplit(extender["urlPrefix"])
    tls = extender.get("tlsConfig", {})
    if not extender.get("managedResources"):
        yield "managedResources is empty: every pod of the scheduler would be sent"
    if extender.get("ignorable"):
        yield "ignorable is true: without the extender pods would be placed by count alone"
    if not extender.get("nodeCacheCapable"):
        yield "nodeCacheCapable is not true"
    if (url.scheme == "https") != bool(extender.get("enableHTTPS")):
        yield f"enableHTTPS does not go with {extender['urlPrefix']}"
    if url.scheme == "http" and not _is_loopback(url.hostname or ""):
        yield f"{extender['urlPrefix']} is plain HTTP over the network"
    if extender.get("enableHTTPS") and not (tls.get("caFile") or tls.get("caData")):
        yield "enableHTTPS without a CA: kube-scheduler would verify nothing"
    if extender.get("enableHTTPS") and not (tls.get("certFile") and tls.get("keyFile")):
        yield "enableHTTPS without a client certificate"
    if tls.get("insecure"):
        yield "tlsConfig.insecure is true"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def one_worker(objects: Sequence[Json]) -> Iterator[str]:
    for where, container in _extenders(objects):
        said = [arg for arg in container.get("args", ()) if arg.startswith(("--workers", "-w"))]
        said += [env["name"] for env in container.get("env", ()) if env["name"] in _WORKER_VARIABLES]
        for each in said:
            yield f"{where}: {each} sets the number of workers, which is 1"


def extenders_listen_where_they_may(objects: Sequence[Json]) -> Iterator[str]:
    for where, container in _extenders(objects):
        options = dict(arg.partition("=")[::2] for arg in container.get("args", ()))
        if not _is_loopback(options.get("--inspect-listen", "127.0.0.1:").rpartition(":")[0]):
            yield f"{where}: the inspection listener is reachable from outside the pod"
        tls = {"--tls-cert-file", "--tls-key-file", "--client-ca-file"}
        if (
            not _is_loopback(options.get("--listen", "127.0.0.1:").rpartition(":")[0])
            and not tls <= options.keys()
        ):
            yield f"{where}: the API listens beyond loopback without client certificates"


def _extenders(objects: Sequence[Json]) -> Iterator[tuple[str, Json]]:
    return ((where, each) for where, each in containers(objects) if "serve" in each.get("args", ()))


def containers_are_confined(objects: Sequence[Json]) -> Iterator[str]:
    for where, container in containers(objects):
        context = container.get("securityContext", {})
        for key, value in _CONTAINER_SECURITY.items():
            if context.get(key) != value:
                yield f"{where}: securityContext.{key} is not {value}"
        for key in ("requests", "limits"):
            for resource in ("cpu", "memory"):
                if resource not in container.get("resources", {}).get(key, {}):
                    yield f"{where}: resources.{key}.{resource} is missing"
        for probe in _PROBES:
            if probe not in container:
                yield f"{where}: {probe} is missing"
        if container["image"].rpartition(":")[2] in ("latest", container["image"]):
            yield f"{where}: image {container['image']} names no version"


def pods(objects: Sequence[Json]) -> Iterator[tuple[str, Json]]:
    """(where, pod specification) of every Deployment and DaemonSet."""
    for workload in of_kind(objects, "Deployment", "DaemonSet"):
        yield workload["metadata"]["name"], workload["spec"]["template"]["spec"]


def pods_are_confined(objects: Sequence[Json]) -> Iterator[str]:
    for where, spec in pods(objects):
        context = spec.get("securityContext", {})
        if context.get("runAsNonRoot") is not True:
            yield f"{where}: securityContext.runAsNonRoot is not True"
        if not context.get("runAsUser"):
            yield f"{where}: securityContext.runAsUser is missing or root"
        if context.get("seccompProfile") != {"type": "RuntimeDefault"}:
            yield f"{where}: securityContext.seccompProfile is not RuntimeDefault"
        if spec.get("automountServiceAccountToken") is not False:
            yield f"{where}: automountServiceAccountToken is not false"
        if not spec.get("priorityClassName"):
            yield f"{where}: priorityClassName is missing"
        for key in ("hostNetwork", "hostPID", "hostIPC"):
            if spec.get(key):
                yield f"{where}: {key} is set"


def volumes_are_harmless(objects: Sequence[Json]) -> Iterator[str]:
    for where, spec in pods(objects):
        for volume in spec.get("volumes", ()):
            if "hostPath" in volume:
                yield f"{where}: volume {volume['name']} is a hostPath"
            for source in volume.get("projected", {}).get("sources", ()):
                if source.get("serviceAccountToken", {}).get("expirationSeconds", 0) > 3600:
                    yield f"{where}: the token of volume {volume['name']} lives longer than an hour"


def deployments_outlive_a_node(objects: Sequence[Json]) -> Iterator[str]:
    budgets = [each["spec"]["selector"]["matchLabels"] for each in of_kind(objects, "PodDisruptionBudget")]
    policies = [
        each["spec"]["podSelector"].get("matchLabels", {}) for each in of_kind(objects, "NetworkPolicy")
    ]
    for deployment in of_kind(objects, "Deployment"):
        where, template = deployment["metadata"]["name"], deployment["spec"]["template"]
        labels = template["metadata"]["labels"].items()
        spread = {each["topologyKey"] for each in template["spec"].get("topologySpreadConstraints", ())}
        if deployment["spec"].get("replicas", 1) < 2:
            yield f"{where}: fewer than two replicas"
        if not {"kubernetes.io/hostname", "topology.kubernetes.io/zone"} <= spread:
            yield f"{where}: its pods are not spread over nodes and zones"
        if not any(budget.items() <= labels for budget in budgets):
            yield f"{where}: no PodDisruptionBudget selects it"
        if not any(policy and policy.items() <= labels for policy in policies):
            yield f"{where}: no NetworkPolicy of its own selects it"


def rights_are_spelled_out(objects: Sequence[Json]) -> Iterator[str]:
    for role in of_kind(objects, "Role", "ClusterRole"):
        where = f"{role['kind']} {role['metadata']['name']}"
        for rule in role.get("rules") or ():
            for key in ("apiGroups", "resources", "verbs", "nonResourceURLs"):
                if any("*" in each for each in rule.get(key, ())):
                    yield f"{where}: a wildcard in {key}"
            for verb in sorted(_FORBIDDEN_VERBS.intersection(rule.get("verbs", ()))):
                yield f"{where}: the verb {verb}"
            if any(each.partition("/")[0] == "secrets" for each in rule.get("resources", ())):
                yield f"{where}: access to secrets"
    for binding in of_kind(objects, "RoleBinding", "ClusterRoleBinding"):
        if binding["roleRef"]["name"] in ("cluster-admin", "admin", "edit"):
            yield f"{binding['metadata']['name']}: bound to {binding['roleRef']['name']}"
        for subject in binding["subjects"]:
            if subject["kind"] != "ServiceAccount":
                yield f"{binding['metadata']['name']}: given to {subject['kind']} {subject['name']}"


def namespaces_are_restricted(objects: Sequence[Json]) -> Iterator[str]:
    for namespace in of_kind(objects, "Namespace"):
        enforced = namespace["metadata"].get("labels", {}).get("pod-security.kubernetes.io/enforce")
        if enforced != "restricted":
            name = namespace["metadata"]["name"]
            yield f"Namespace {name}: PodSecurity enforces {enforced}, not restricted"


RULES: tuple[Rule, ...] = (
    all_nodes_are_looked_at,
    the_way_to_the_extender_is_safe,
    one_worker,
    extenders_listen_where_they_may,
    containers_are_confined,
    pods_are_confined,
    volumes_are_harmless,
    deployments_outlive_a_node,
    rights_are_spelled_out,
    namespaces_are_restricted,
)
