"""What is shipped keeps the policy, and the policy notices what would break it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.manifests.policy import Json, of_kind, violations
from tests.manifests.shipped import base, standalone

Change = Callable[[list[Json]], None]


def test_the_base_keeps_it() -> None:
    assert violations(base()) == []


def test_the_standalone_extender_keeps_it() -> None:
    assert violations(standalone()) == []


def deployment(objects: list[Json]) -> Json:
    (found,) = of_kind(objects, "Deployment")
    return found


def pod_spec(objects: list[Json]) -> Json:
    spec: Json = deployment(objects)["spec"]["template"]["spec"]
    return spec


def container(objects: list[Json], name: str = "extender") -> Json:
    found: Json = next(each for each in pod_spec(objects)["containers"] if each["name"] == name)
    return found


def in_configuration(change: Callable[[Json], Any]) -> Change:
    """Change kube-scheduler's configuration inside its ConfigMap."""

    def apply(objects: list[Json]) -> None:
        (config_map,) = of_kind(objects, "ConfigMap")
        configuration = yaml.safe_load(config_map["data"]["kube-scheduler.yaml"])
        change(configuration)
        config_map["data"]["kube-scheduler.yaml"] = yaml.safe_dump(configuration)

    return apply


def in_extender(**entries: Any) -> Change:
    return in_configuration(lambda configuration: configuration["extenders"][0].update(entries))


def https(**tls: str) -> Change:
    return in_extender(urlPrefix="https://extender:8888", enableHTTPS=True, tlsConfig=tls)


def in_rule(**entries: list[str]) -> Change:
    return lambda objects: of_kind(objects, "Role")[0]["rules"][0].update(entries)


def with_env(name: str) -> Change:
    return lambda objects: container(objects)["env"].append({"name": name, "value": "--workers=2"})


def with_argument(argument: str) -> Change:
    return lambda objects: container(objects)["args"].append(argument)


def without_kind(kind: str) -> Change:
    def drop(objects: list[Json]) -> None:
        objects[:] = [each for each in objects if each["kind"] != kind]

    return drop


CLIENT = {"certFile": "c", "keyFile": "k"}

BROKEN: list[tuple[str, Change, str]] = [
    ("HTTPS without a CA", https(**CLIENT), "enableHTTPS without a CA"),
    ("HTTPS without a client certificate", https(caFile="a"), "enableHTTPS without a client certificate"),
    ("a CA that is not looked at", https(caFile="a", insecure="true", **CLIENT), "tlsConfig.insecure"),
    ("an https URL without HTTPS", in_extender(urlPrefix="https://x"), "enableHTTPS does not go with"),
    (
        "plain HTTP over the network",
        in_extender(urlPrefix="http://extender:8888"),
        "plain HTTP over the network",
    ),
    (
        "a sample of the nodes",
        in_configuration(lambda configuration: configuration.update(percentageOfNodesToScore=50)),
        "percentageOfNodesToScore is 50",
    ),
    (
        "kube-scheduler's own sample",
        in_configuration(lambda configuration: configuration.pop("percentageOfNodesToScore")),
        "percentageOfNodesToScore is None",
    ),
    ("no managed resources", in_extender(managedResources=[]), "managedResources is empty"),
    ("an extender that may fail", in_extender(ignorable=True), "ignorable is true"),
    ("whole Node objects", in_extender(nodeCacheCapable=False), "nodeCacheCapable"),
    ("no extender", in_configuration(lambda configuration: configuration.pop("extenders")), "no extender"),
    ("workers by flag", with_argument("--workers=2"), "--workers=2 sets the number of workers"),
    ("workers by gunicorn's arguments", with_env("GUNICORN_CMD_ARGS"), "GUNICORN_CMD_ARGS sets"),
    ("workers by WEB_CONCURRENCY", with_env("WEB_CONCURRENCY"), "WEB_CONCURRENCY sets"),
    ("inspection for everybody", with_argument("--inspect-listen=0.0.0.0:8890"), "inspection listener"),
    ("the API for everybody", with_argument("--listen=0.0.0.0:8888"), "without client certificates"),
    *(
        (
            f"a container without {key}",
            lambda o, k=key: container(o)["securityContext"].pop(k),
            f"securityContext.{key}",
        )
        for key in ("allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities")
    ),
    *(
        (
            f"a pod without {key}",
            lambda o, k=key: pod_spec(o)["securityContext"].pop(k),
            f"securityContext.{key}",
        )
        for key in ("runAsNonRoot", "runAsUser", "seccompProfile")
    ),
    *(
        (
            f"a container without {key}",
            lambda o, k=key: container(o, "kube-scheduler").pop(k),
            f"{key} is missing",
        )
        for key in ("startupProbe", "livenessProbe", "readinessProbe")
    ),
    (
        "a container without a memory limit",
        lambda o: container(o)["resources"]["limits"].pop("memory"),
        "resources.limits.memory is missing",
    ),
    (
        "an image of any version",
        lambda o: container(o).update(image="scheduler-ext:latest"),
        "names no version",
    ),
    ("an image without a tag", lambda o: container(o).update(image="scheduler-ext"), "names no version"),
    (
        "a token mounted by default",
        lambda o: pod_spec(o).pop("automountServiceAccountToken"),
        "automountServiceAccountToken",
    ),
    (
        "a token for a year",
        lambda o: pod_spec(o)["volumes"][-1]["projected"]["sources"][0]["serviceAccountToken"].update(
            expirationSeconds=31536000
        ),
        "lives longer than an hour",
    ),
    ("the host's network", lambda o: pod_spec(o).update(hostNetwork=True), "hostNetwork"),
    (
        "a directory of the host",
        lambda o: pod_spec(o)["volumes"].append({"name": "h", "hostPath": {"path": "/"}}),
        "hostPath",
    ),
    ("no priority", lambda o: pod_spec(o).pop("priorityClassName"), "priorityClassName"),
    ("one replica", lambda o: deployment(o)["spec"].update(replicas=1), "fewer than two replicas"),
    ("all on one node", lambda o: pod_spec(o).pop("topologySpreadConstraints"), "not spread"),
    ("no disruption budget", without_kind("PodDisruptionBudget"), "no PodDisruptionBudget"),
    ("no network policy", without_kind("NetworkPolicy"), "no NetworkPolicy"),
    ("any verb", in_rule(verbs=["*"]), "a wildcard in verbs"),
    ("any resource", in_rule(resources=["*"]), "a wildcard in resources"),
    ("any subresource", in_rule(resources=["pods/*"]), "a wildcard in resources"),
    ("any group", in_rule(apiGroups=["*"]), "a wildcard in apiGroups"),
    ("any path", in_rule(nonResourceURLs=["*"]), "a wildcard in nonResourceURLs"),
    ("secrets", in_rule(resources=["secrets"]), "access to secrets"),
    ("impersonation", in_rule(verbs=["impersonate"]), "the verb impersonate"),
    (
        "cluster-admin",
        lambda o: of_kind(o, "ClusterRoleBinding")[0]["roleRef"].update(name="cluster-admin"),
        "bound to cluster-admin",
    ),
    (
        "rights for a group of people",
        lambda o: of_kind(o, "RoleBinding")[0]["subjects"][0].update(
            kind="Group", name="system:authenticated"
        ),
        "given to Group",
    ),
    (
        "a namespace for anything",
        lambda o: of_kind(o, "Namespace")[0]["metadata"]["labels"].pop("pod-security.kubernetes.io/enforce"),
        "PodSecurity enforces None",
    ),
]


@pytest.mark.parametrize(
    ("change", "said"), [pytest.param(change, said, id=name) for name, change, said in BROKEN]
)
def test_notices(change: Change, said: str) -> None:
    objects = base()
    change(objects)
    assert [broken for broken in violations(objects) if said in broken]
