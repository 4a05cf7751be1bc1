"""How pods must be confined, and outlive a node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.manifests.objects import (
    Json,
    containers,
    ends,
    entries,
    mapping,
    namespace_of,
    of_kind,
    pods,
    title,
)

_CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
# A setting of the pod also holds for its containers; a container's own must be the same.
_POD_SECURITY = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
_PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
_SHARED_WITH_OTHERS = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace")
_HOUR_S = 3600
# The agent looks at its host: root, for kubelet's socket, and that one directory. In a namespace of its own,
# where nothing else may be.
AGENT = "DaemonSet gpu-scheduler-agent"
AGENT_NAMESPACE = "gpu-scheduler-agent"
AGENT_SEES = {"/var/lib/kubelet/pod-resources"}
# The only one that needs no second: without it a demonstration's reports grow old.
_ALONE = "Deployment gpu-scheduler-fake-agent"


def containers_are_confined(objects: Sequence[Json]) -> Iterator[str]:
    for where, container in containers(objects):
        context = mapping(container, "securityContext")
        for key, value in _CONTAINER_SECURITY.items():
            if context.get(key) != value:
                yield f"{where}: securityContext.{key} is not {value}"
        for key, value in _POD_SECURITY.items():
            if context.get(key, value) != value:
                yield f"{where}: securityContext.{key} is not {value}"
        if context.get("privileged"):
            yield f"{where}: securityContext.privileged is set"
        for key in ("runAsUser", "runAsGroup"):
            if context.get(key) == 0 and not _is_agent(where):
                yield f"{where}: securityContext.{key} is root"
        if any("hostPort" in port for port in entries(container, "ports")):
            yield f"{where}: a hostPort"


def containers_have_limits_and_versions(objects: Sequence[Json]) -> Iterator[str]:
    for where, container in containers(objects):
        for key in ("requests", "limits"):
            for resource in ("cpu", "memory"):
                if not mapping(container, "resources", key).get(resource):
                    yield f"{where}: resources.{key}.{resource} is missing"
        image = container["image"].rpartition("/")[2]
        if "@" not in image and image.partition(":")[2] in ("", "latest"):
            yield f"{where}: image {container['image']} names no version"


def what_goes_on_running_is_probed(objects: Sequence[Json]) -> Iterator[str]:
    for where, spec in pods(objects):
        if ends(spec):
            continue
        # Agents serve no requests, so nothing waits for them to be ready.
        wanted = ("livenessProbe",) if _is_agent(where) or where == _ALONE else _PROBES
        sidecars = [each for each in entries(spec, "initContainers") if each.get("restartPolicy") == "Always"]
        for container in [*sidecars, *entries(spec, "containers")]:
            for probe in wanted:
                if not container.get(probe):
                    yield f"{where}/{container['name']}: {probe} is missing"


def pods_are_confined(objects: Sequence[Json]) -> Iterator[str]:
    for where, spec in pods(objects):
        context = mapping(spec, "securityContext")
        for key, value in _POD_SECURITY.items():
            if context.get(key) != value and not (_is_agent(where) and key == "runAsNonRoot"):
                yield f"{where}: securityContext.{key} is not {value}"
        for key in ("runAsUser", "runAsGroup"):
            if not context.get(key) and not _is_agent(where):
                yield f"{where}: securityContext.{key} is missing or root"
        if spec.get("automountServiceAccountToken") is not False:
            yield f"{where}: automountServiceAccountToken is not false"
        if not spec.get("priorityClassName"):
            yield f"{where}: priorityClassName is missing"
        if mapping(spec, "nodeSelector").get("kubernetes.io/os") != "linux":
            yield f"{where}: nodeSelector does not ask for Linux"
        for key in _SHARED_WITH_OTHERS:
            if spec.get(key):
                yield f"{where}: {key} is set"


def _is_agent(where: str) -> bool:
    return where.partition("/")[0] == AGENT


def _is_what_the_agent_sees(where: str, spec: Json, volume: Json) -> bool:
    mounts = [
        mount
        for container in entries(spec, "containers")
        for mount in entries(container, "volumeMounts")
        if mount["name"] == volume["name"]
    ]
    return (
        _is_agent(where)
        and volume["hostPath"].get("path") in AGENT_SEES
        and all(mount.get("readOnly") for mount in mounts)
    )


def volumes_are_harmless(objects: Sequence[Json]) -> Iterator[str]:
    for where, spec in pods(objects):
        for volume in entries(spec, "volumes"):
            if "hostPath" in volume and not _is_what_the_agent_sees(where, spec, volume):
                yield f"{where}: volume {volume['name']} is a hostPath"
            for source in entries(volume, "projected", "sources"):
                if (mapping(source, "serviceAccountToken").get("expirationSeconds") or 0) > _HOUR_S:
                    yield f"{where}: the token of volume {volume['name']} lives longer than an hour"


def pods_live_where_they_are_restricted(objects: Sequence[Json]) -> Iterator[str]:
    restricted = set()
    for namespace in of_kind(objects, "Namespace"):
        enforced = mapping(namespace, "metadata", "labels").get("pod-security.kubernetes.io/enforce")
        if enforced == "restricted":
            restricted.add(namespace["metadata"]["name"])
        elif namespace["metadata"]["name"] != AGENT_NAMESPACE:
            yield f"{title(namespace)}: PodSecurity enforces {enforced}, not restricted"
    for each in objects:
        if title(each) == AGENT and namespace_of(each) == AGENT_NAMESPACE:
            continue
        if any(pods([each])) and namespace_of(each) not in restricted:
            yield f"{title(each)}: in namespace {namespace_of(each)}, which is not among the restricted ones"


def deployments_outlive_a_node(objects: Sequence[Json]) -> Iterator[str]:
    for deployment in of_kind(objects, "Deployment"):
        where, template = title(deployment), deployment["spec"]["template"]
        if where == _ALONE:
            continue
        replicas = deployment["spec"].get("replicas", 1)
        spread = {each["topologyKey"] for each in entries(template, "spec", "topologySpreadConstraints")}
        if replicas < 2:
            yield f"{where}: fewer than two replicas"
        if not {"kubernetes.io/hostname", "topology.kubernetes.io/zone"} <= spread:
            yield f"{where}: its pods are not spread over nodes and zones"
        budgets = [
            budget
            for budget in of_kind(objects, "PodDisruptionBudget")
            if _selects(budget, ("spec", "selector"), deployment)
        ]
        if not budgets:
            yield f"{where}: no PodDisruptionBudget selects it"
        for budget in budgets:
            least = budget["spec"].get("minAvailable")
            if not isinstance(least, int) or not 1 <= least < replicas:
                yield f"{title(budget)}: minAvailable {least} of {replicas} replicas"
            if budget["spec"].get("unhealthyPodEvictionPolicy") != "AlwaysAllow":
                yield f"{title(budget)}: pods that cannot start would keep their nodes from being drained"


def the_network_is_closed(objects: Sequence[Json]) -> Iterator[str]:
    policies = of_kind(objects, "NetworkPolicy")
    for policy in policies:
        for direction in ("ingress", "egress"):
            if {} in entries(policy, "spec", direction):
                yield f"{title(policy)}: {direction} from and to anybody, at any port"
    for deployment in of_kind(objects, "Deployment", "DaemonSet"):
        here = [policy for policy in policies if namespace_of(policy) == namespace_of(deployment)]
        if not any(_refuses_everything(policy) for policy in here):
            yield f"{title(deployment)}: no NetworkPolicy refuses what no other allows"
        if not any(_selects(policy, ("spec", "podSelector"), deployment) for policy in here):
            yield f"{title(deployment)}: no NetworkPolicy of its own selects it"
    for each in of_kind(objects, "Service"):
        if mapping(each, "spec").get("type", "ClusterIP") != "ClusterIP":
            yield f"{title(each)}: reachable from outside the cluster"
    for each in of_kind(objects, "Ingress", "Gateway", "HTTPRoute", "Route"):
        yield f"{title(each)}: reachable from outside the cluster"


def chosen_pods_come_in(objects: Sequence[Json]) -> Iterator[str]:
    for policy in of_kind(objects, "NetworkPolicy"):
        for rule in entries(policy, "spec", "ingress"):
            if not all(_chooses(peer) for peer in entries(rule, "from") or [{}]):
                yield f"{title(policy)}: ingress from every pod of the cluster or of a namespace"


def _chooses(peer: Json) -> bool:
    """Whether a peer is addresses, or pods that their labels choose."""
    return "ipBlock" in peer or bool(mapping(peer, "podSelector"))


def _refuses_everything(policy: Json) -> bool:
    spec = policy["spec"]
    return (
        not mapping(spec, "podSelector")
        and set(entries(spec, "policyTypes")) == {"Ingress", "Egress"}
        and not entries(spec, "ingress")
        and not entries(spec, "egress")
    )


def _selects(selecting: Json, path: tuple[str, ...], deployment: Json) -> bool:
    """Whether its labels are those of a Deployment's pods, in the same namespace."""
    wanted = mapping(selecting, *path, "matchLabels")
    labels = mapping(deployment, "spec", "template", "metadata", "labels")
    return (
        bool(wanted)
        and wanted.items() <= labels.items()
        and namespace_of(selecting) == namespace_of(deployment)
    )


RULES = (
    containers_are_confined,
    containers_have_limits_and_versions,
    what_goes_on_running_is_probed,
    pods_are_confined,
    volumes_are_harmless,
    pods_live_where_they_are_restricted,
    deployments_outlive_a_node,
    the_network_is_closed,
    chosen_pods_come_in,
)
