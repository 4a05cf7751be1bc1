"""The shipped manifests keep each rule, and each rule finds a violation of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import yaml

from tests.manifests.objects import Json, title
from tests.manifests.policy import violations
from tests.manifests.shipped import MANIFESTS, base, shipped

Change = Callable[[list[Json]], Any]
_KNOWN = (
    *("dra", "dra-health", "gangs", "idle-reclaim", "model-affinity", "placeholders", "shares"),
    "standalone-mtls",
)
# Those of features go with them.
COMPONENTS = [name for name in _KNOWN if (MANIFESTS / "components" / name).exists()]


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param(base(), id="the base"),
        pytest.param(shipped("shares", "shares-cdi"), id="shares by CDI"),
        *(pytest.param(shipped(name), id=name) for name in COMPONENTS),
    ],
)
def test_what_is_shipped_keeps_every_rule(objects: list[Json]) -> None:
    assert violations(objects) == []


def part(value: Any, *path: str | int) -> Any:
    """What is at a path; entries of lists by their name or number."""
    for key in path:
        by_name = isinstance(value, list) and isinstance(key, str)
        value = next(each for each in value if each["name"] == key) if by_name else value[key]
    return value


def at(objects: list[Json], what: str, *path: str | int) -> Any:
    """What is at a path in an object, or in the first of a kind."""
    return part(next(each for each in objects if what in (each["kind"], title(each))), *path)


def changing(what: str, *path: str | int, **entries: Any) -> Change:
    """Change the mapping at a path."""
    return lambda objects: at(objects, what, *path).update(entries)


def adding(value: Any, what: str, *path: str | int) -> Change:
    """Add to the list at a path."""
    return lambda objects: at(objects, what, *path).append(value)


POD = ("spec", "template", "spec")
EXTENDER = (*POD, "containers", "extender")
SCHEDULER = (*POD, "containers", "kube-scheduler")
in_pod = partial(changing, "Deployment", *POD)
in_container = partial(changing, "Deployment", *EXTENDER)
in_security_context = partial(changing, "Deployment", *EXTENDER, "securityContext")
in_rule = partial(changing, "Role", "rules", 0)


def with_argument(argument: str) -> Change:
    return adding(argument, "Deployment", *EXTENDER, "args")


def mounting(container: str, volume: str) -> Change:
    """A container that mounts this volume as its token."""

    def apply(objects: list[Json]) -> None:
        mounts = at(objects, "Deployment", *POD, "containers", container, "volumeMounts")
        (mount,) = [each for each in mounts if "serviceaccount" in each["mountPath"]]
        mount["name"] = volume

    return apply


def in_file(name: str, *path: str | int, **entries: Any) -> Change:
    """Change the mapping at a path of a configuration inside the ConfigMap."""

    def apply(objects: list[Json]) -> None:
        data = at(objects, "ConfigMap", "data")
        configuration = yaml.safe_load(data[name])
        part(configuration, *path).update(entries)
        data[name] = yaml.safe_dump(configuration)

    return apply


in_scheduler = partial(in_file, "kube-scheduler.yaml")
in_profile = partial(in_file, "kube-scheduler.yaml", "profiles", 0)
in_extender = partial(in_file, "kube-scheduler.yaml", "extenders", 0)
in_ours = partial(in_file, "extender.yaml")


def https(**tls: str) -> Change:
    return in_extender(urlPrefix="https://extender:8888", enableHTTPS=True, tlsConfig=tls)


def in_ingress(rule: Json) -> Change:
    return changing("NetworkPolicy gpu-scheduler", "spec", ingress=[rule])


def with_object(kind: str, **fields: Any) -> Change:
    metadata = {"name": "other", "namespace": "gpu-scheduler"}
    return lambda objects: objects.append({"kind": kind, "metadata": metadata, **fields})


def without_kind(kind: str) -> Change:
    def drop(objects: list[Json]) -> None:
        objects[:] = [each for each in objects if each["kind"] != kind]

    return drop


def without_object(name: str) -> Change:
    def drop(objects: list[Json]) -> None:
        objects[:] = [each for each in objects if each["metadata"]["name"] != name]

    return drop


HOST = {"name": "all", "hostPath": {"path": "/"}}
TOKEN = (*POD, "volumes", "token", "projected")
CLIENT = {"certFile": "/etc/gpu-scheduler/c", "keyFile": "/etc/gpu-scheduler/k"}
CA = {"caFile": "/etc/gpu-scheduler/a"}

OF_THE_BASE: list[tuple[str, Change, str]] = [
    # kube-scheduler's configuration.
    ("no configuration", changing("Deployment", *SCHEDULER, args=[]), "without --config"),
    ("the default scheduler's pods", in_profile(schedulerName="default-scheduler"), "a profile is the def"),
    ("no election", in_scheduler(leaderElection={}), "leaderElect is not true"),
    ("a larger weight of the extender", in_extender(weight=1000), "a step of NodeAffinity counts less"),
    ("no arguments of plugins", in_profile(pluginConfig=None), "has default constraints"),
    ("every pod is sent", in_extender(managedResources=[]), "managedResources is empty"),
    ("an extender that may fail", in_extender(ignorable=True), "ignorable is true"),
    ("no preempt verb", in_extender(preemptVerb=None), "preemptVerb is missing"),
    (
        "a decision that takes as long as the request",
        in_extender(httpTimeout="1500ms"),
        "server.decisionDeadline 2s is not below httpTimeout, 1.5s",
    ),
    ("pods of another scheduler", in_ours(schedulerNames=["other"]), "schedulerNames ['other'] are not"),
    (
        "an extender elsewhere",
        lambda o: at(o, "Deployment", *POD, "containers").remove(at(o, "Deployment", *EXTENDER)),
        "asks an extender on loopback, and has none",
    ),
    # The way to the extender.
    ("HTTPS without a CA", https(**CLIENT), "enableHTTPS without a CA"),
    ("HTTPS without a client certificate", https(**CA), "enableHTTPS without a client certificate"),
    ("a CA without an effect", https(insecure="true", **CA, **CLIENT), "tlsConfig.insecure"),
    ("a CA that is missing", https(caFile="/nowhere/ca.crt", **CLIENT), "is in no volume"),
    ("a certificate of another host", https(serverName="other", **CLIENT), "serverName is not the host"),
    ("plain HTTP over the network", in_extender(urlPrefix="http://extender:8888"), "plain HTTP over"),
    # The extender.
    ("more workers", with_argument("--workers=2"), "--workers=2 sets the number of workers"),
    ("inspection for all", with_argument("--inspect-listen=0.0.0.0:8890"), "inspection listener"),
    ("the API for all", with_argument("--listen=0.0.0.0:8888"), "without client certificates"),
    # Containers and pods.
    ("a container without a context", in_container(securityContext=None), "allowPrivilegeEscalation is not"),
    ("a privileged container", in_security_context(privileged=True), "privileged is set"),
    ("a container of root", in_security_context(runAsUser=0), "extender: securityContext.runAsUser is root"),
    ("any system call", in_security_context(seccompProfile={"type": "Unconfined"}), "securityContext.secc"),
    ("a port of the host", in_container(ports=[{"containerPort": 1, "hostPort": 1}]), "a hostPort"),
    ("no limits", in_container(resources={}), "resources.limits.memory is missing"),
    ("any version", in_container(image="registry:5000/scheduler-ext"), "names no version"),
    ("no probe", in_container(livenessProbe=None), "livenessProbe is missing"),
    (
        "an init container that may write anywhere",
        in_pod(initContainers=[{"name": "first", "image": "x:1"}]),
        "first: securityContext.readOnlyRootFilesystem",
    ),
    ("a pod without a context", in_pod(securityContext=None), "gpu-scheduler: securityContext.runAsNonRoot"),
    ("the host's network", in_pod(hostNetwork=True), "hostNetwork"),
    (
        "the host's network for another kind",
        with_object("CronJob", spec={"jobTemplate": {"spec": {"template": {"spec": {"hostNetwork": True}}}}}),
        "CronJob other: hostNetwork",
    ),
    ("a token by default", in_pod(automountServiceAccountToken=None), "automountServiceAccountToken is not"),
    (
        "a token for a year",
        changing("Deployment", *TOKEN, "sources", 0, "serviceAccountToken", expirationSeconds=31536000),
        "lives longer than an hour",
    ),
    (
        "a directory of the host",
        adding(HOST, "Deployment", *POD, "volumes"),
        "hostPath",
    ),
    (
        "more of the host for the agent",
        adding(HOST, "DaemonSet", *POD, "volumes"),
        "gpu-scheduler-agent: volume all is a hostPath",
    ),
    (
        "kubelet's directory to write to",
        changing("DaemonSet", *POD, "containers", 0, "volumeMounts", 0, readOnly=False),
        "volume pod-resources is a hostPath",
    ),
    ("the host's processes for the agent", changing("DaemonSet", *POD, hostPID=True), "hostPID is set"),
    (
        "a pod beside the agents",
        changing("Deployment", "metadata", namespace="gpu-scheduler-agent"),
        "not among the restricted ones",
    ),
    ("a namespace for anything", changing("Namespace", "metadata", labels={}), "PodSecurity enforces None"),
    # Nodes that are drained or lost.
    ("one replica", changing("Deployment", "spec", replicas=1), "fewer than two replicas"),
    ("all on one node", in_pod(topologySpreadConstraints=None), "not spread"),
    ("no disruption budget", without_kind("PodDisruptionBudget"), "no PodDisruptionBudget"),
    ("a budget of all", changing("PodDisruptionBudget", "spec", minAvailable=2), "minAvailable 2 of 2"),
    # The network.
    ("no network policy", without_kind("NetworkPolicy"), "no NetworkPolicy of its own"),
    ("nothing is refused", without_object("nothing-else"), "no NetworkPolicy refuses what no other allows"),
    ("any sender", in_ingress({}), "ingress from and to anybody"),
    ("any sender at a port", in_ingress({"ports": [{"port": 8889}]}), "ingress from every pod"),
    ("every namespace", in_ingress({"from": [{"namespaceSelector": {}}]}), "ingress from every pod"),
    ("a load balancer", with_object("Service", spec={"type": "LoadBalancer"}), "outside the cluster"),
    # Rights.
    ("any verb", in_rule(verbs=["*"]), "a wildcard in verbs"),
    ("any subresource", in_rule(resources=["pods/*"]), "a wildcard in resources"),
    ("secrets", in_rule(resources=["secrets"]), "access to secrets"),
    ("impersonation", in_rule(verbs=["impersonate"]), "the verb impersonate"),
    (
        "rights over rights",
        in_rule(apiGroups=["rbac.authorization.k8s.io"], resources=["clusterroles"], verbs=["update"]),
        "it could give itself rights",
    ),
    ("the rights of all roles", changing("ClusterRole", aggregationRule={"x": 1}), "an aggregationRule"),
    ("cluster-admin", changing("ClusterRoleBinding", "roleRef", name="cluster-admin"), "bound to cluster-a"),
    (
        "rights for a group of people",
        changing("RoleBinding", "subjects", 0, kind="Group", name="all"),
        "given to Group",
    ),
    (
        "a token that never ends",
        with_object("Secret", type="kubernetes.io/service-account-token"),
        "a token that never ends",
    ),
    (
        "the extender's token beside its own",
        in_pod(serviceAccountName="gpu-scheduler-extender"),
        "a token that never ends",
    ),
    ("kube-scheduler's token for the extender", mounting("extender", "token"), "has kube-scheduler's ident"),
    (
        "the extender's token for kube-scheduler",
        mounting("kube-scheduler", "extender-token"),
        "gpu-scheduler/kube-scheduler: has the extender's identity",
    ),
    (
        "both tokens for the extender",
        adding({"name": "token", "mountPath": "/token"}, "Deployment", *EXTENDER, "volumeMounts"),
        "gpu-scheduler/extender: 2 identities, not one",
    ),
    (
        "kube-scheduler's rights for the extender",
        adding(
            {"kind": "ServiceAccount", "name": "gpu-scheduler-extender", "namespace": "gpu-scheduler"},
            "ClusterRoleBinding",
            "subjects",
        ),
        "gpu-scheduler-extender: has rights of kube-scheduler",
    ),
    # Admission.
    ("any status of a Pod", without_object("gpu-scheduler-nominations-only"), "writes pods/status, and no"),
    (
        "nominations for another scheduler",
        in_profile(schedulerName="other"),
        "gpu-scheduler-nominations-only: schedulers ['gpu-scheduler'] are not the profiles ['other']",
    ),
    ("agents for any node", without_kind("ValidatingAdmissionPolicy"), "writes gpunodes/status, and no"),
    (
        "a policy that only warns",
        changing("ValidatingAdmissionPolicyBinding", "spec", validationActions=["Warn"]),
        "no binding of it denies",
    ),
    (
        "a policy that fails open",
        changing("ValidatingAdmissionPolicy", "spec", failurePolicy="Ignore"),
        "lets pass what it fails on",
    ),
]

ASSIGNMENT = "ValidatingAdmissionPolicy gpu-scheduler-assignment"
OF_SHARES: list[tuple[str, Change, str]] = [
    ("a bind that may fail", in_extender(ignorable=True), "ignorable with bindVerb"),
    ("a bind of no extender", in_extender(bindVerb=None), "bind.enabled without bindVerb"),
    ("a bind without the right", in_ours(bind={"enabled": False}), "bindVerb without bind.enabled"),
    ("a slow bind", in_ours(bind={"enabled": True, "deadline": "30s"}), "bind.deadline 30s is not below"),
    ("any status of a Node", without_object("gpu-scheduler-capacity-only"), "writes nodes/status, and no"),
    (
        "assignments by all",
        without_object("gpu-scheduler-assignment"),
        "no policy says who may assign GPUs by CREATE of pods/*",
    ),
    (
        "assignments by the older way",
        lambda o: at(o, ASSIGNMENT, "spec", "matchConstraints", "resourceRules").pop(1),
        "no policy says who may assign GPUs by CREATE of bindings",
    ),
    ("a mutation of no pods", without_kind("MutatingAdmissionPolicyBinding"), "shares: nothing binds it"),
    (
        "a mutation that fails open",
        changing("MutatingAdmissionPolicy", "spec", failurePolicy="Ignore"),
        "lets pass what it fails on",
    ),
    (
        "another resource",
        in_ours(resources={"memoryShare": "example.com/x"}),
        "knows shares as 'gpu.scheduler-ext.io/memory-mib', not as example.com/x",
    ),
    (
        "another scheduler",
        in_profile(schedulerName="other"),
        "gpu-scheduler-share-pods: schedulers ['gpu-scheduler'] are not the profiles ['other']",
    ),
]


@pytest.mark.parametrize(
    ("components", "change", "said"),
    [
        pytest.param(components, change, said, id=name)
        for components, table in (
            ((), OF_THE_BASE),
            (("shares",), OF_SHARES),
        )
        for name, change, said in table
    ],
)
def test_a_rule_finds(components: tuple[str, ...], change: Change, said: str) -> None:
    found = shipped(*components)
    change(found)
    assert [broken for broken in violations(found) if said in broken]
