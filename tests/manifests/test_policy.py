"""The shipped manifests keep each rule, and each rule finds a violation of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.manifests.objects import Json, of_kind
from tests.manifests.policy import violations
from tests.manifests.shipped import (
    SHARES_CDI,
    base,
    dra,
    dra_health,
    gangs,
    idle_reclaim,
    placeholders,
    planner,
    shares,
    standalone,
)

Change = Callable[[list[Json]], Any]
SHIPPED = (base, dra, dra_health, gangs, idle_reclaim, placeholders, planner, shares, standalone)


@pytest.mark.parametrize("objects", [*(each() for each in SHIPPED), shares(SHARES_CDI)])
def test_what_is_shipped_keeps_every_rule(objects: list[Json]) -> None:
    assert violations(objects) == []


def agent(objects: list[Json]) -> Json:
    """The agents' pod specification."""
    (found,) = of_kind(objects, "DaemonSet")
    spec: Json = found["spec"]["template"]["spec"]
    return spec


def deployment(objects: list[Json]) -> Json:
    (found,) = of_kind(objects, "Deployment")
    return found


def pod_spec(objects: list[Json]) -> Json:
    spec: Json = deployment(objects)["spec"]["template"]["spec"]
    return spec


def container(objects: list[Json], name: str = "extender") -> Json:
    found: Json = next(each for each in pod_spec(objects)["containers"] if each["name"] == name)
    return found


def named(objects: list[Json], kind: str, name: str) -> Json:
    (found,) = [each for each in of_kind(objects, kind) if each["metadata"]["name"] == name]
    return found


def in_pod(**entries: Any) -> Change:
    return lambda objects: pod_spec(objects).update(entries)


def in_container(**entries: Any) -> Change:
    return lambda objects: container(objects).update(entries)


def in_security_context(**entries: Any) -> Change:
    return lambda objects: container(objects)["securityContext"].update(entries)


def with_argument(argument: str) -> Change:
    return lambda objects: container(objects)["args"].append(argument)


def mounting(of: str, name: str) -> Change:
    """A container that mounts this volume as its token."""

    def apply(objects: list[Json]) -> None:
        (mount,) = [m for m in container(objects, of)["volumeMounts"] if "serviceaccount" in m["mountPath"]]
        mount["name"] = name

    return apply


def in_file(name: str, change: Callable[[Json], Any]) -> Change:
    """Change a configuration inside the ConfigMap."""

    def apply(objects: list[Json]) -> None:
        (config_map,) = of_kind(objects, "ConfigMap")
        configuration = yaml.safe_load(config_map["data"][name])
        change(configuration)
        config_map["data"][name] = yaml.safe_dump(configuration)

    return apply


def in_scheduler(**entries: Any) -> Change:
    return in_file("kube-scheduler.yaml", lambda configuration: configuration.update(entries))


def in_profile(**entries: Any) -> Change:
    return in_file("kube-scheduler.yaml", lambda configuration: configuration["profiles"][0].update(entries))


def in_extender(**entries: Any) -> Change:
    return in_file("kube-scheduler.yaml", lambda configuration: configuration["extenders"][0].update(entries))


def in_ours(**sections: Any) -> Change:
    return in_file("extender.yaml", lambda configuration: configuration.update(sections))


def https(**tls: str) -> Change:
    return in_extender(urlPrefix="https://extender:8888", enableHTTPS=True, tlsConfig=tls)


def in_first(kind: str, *path: str, **entries: Any) -> Change:
    """Change the mapping at `path` of the first object of a kind."""

    def apply(objects: list[Json]) -> None:
        changed = of_kind(objects, kind)[0]
        for key in path:
            changed = changed[key]
        changed.update(entries)

    return apply


def in_rule(**entries: list[str]) -> Change:
    return lambda objects: of_kind(objects, "Role")[0]["rules"][0].update(entries)


def in_ingress(rule: Json) -> Change:
    return lambda objects: named(objects, "NetworkPolicy", "gpu-scheduler")["spec"].update(ingress=[rule])


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


CLIENT = {"certFile": "/etc/gpu-scheduler/c", "keyFile": "/etc/gpu-scheduler/k"}
CA = {"caFile": "/etc/gpu-scheduler/a"}

OF_THE_BASE: list[tuple[str, Change, str]] = [
    # kube-scheduler's configuration.
    ("no configuration", lambda o: container(o, "kube-scheduler").update(args=[]), "without --config"),
    ("the default scheduler's pods", in_profile(schedulerName="default-scheduler"), "a profile is the def"),
    ("no election", in_scheduler(leaderElection={}), "leaderElect is not true"),
    ("a sample of the nodes", in_scheduler(percentageOfNodesToScore=50), "percentageOfNodesToScore is 50"),
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
        lambda o: pod_spec(o)["containers"].remove(container(o)),
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
        lambda o: next(each for each in pod_spec(o)["volumes"] if each["name"] == "token")["projected"][
            "sources"
        ][0]["serviceAccountToken"].update(expirationSeconds=31536000),
        "lives longer than an hour",
    ),
    (
        "a directory of the host",
        lambda o: pod_spec(o)["volumes"].append({"name": "h", "hostPath": {"path": "/"}}),
        "hostPath",
    ),
    (
        "more of the host for the agent",
        lambda o: agent(o)["volumes"].append({"name": "all", "hostPath": {"path": "/"}}),
        "volume all is a hostPath",
    ),
    (
        "kubelet's directory to write to",
        lambda o: agent(o)["containers"][0]["volumeMounts"][0].update(readOnly=False),
        "volume pod-resources is a hostPath",
    ),
    ("the host's processes for the agent", lambda o: agent(o).update(hostPID=True), "hostPID is set"),
    (
        "a pod beside the agents",
        lambda o: deployment(o)["metadata"].update(namespace="gpu-scheduler-agent"),
        "not among the restricted ones",
    ),
    ("a namespace for anything", in_first("Namespace", "metadata", labels={}), "PodSecurity enforces None"),
    # Nodes that are drained or lost.
    ("one replica", lambda o: deployment(o)["spec"].update(replicas=1), "fewer than two replicas"),
    ("all on one node", in_pod(topologySpreadConstraints=None), "not spread"),
    ("no disruption budget", without_kind("PodDisruptionBudget"), "no PodDisruptionBudget"),
    ("a budget of all", in_first("PodDisruptionBudget", "spec", minAvailable=2), "minAvailable 2 of 2"),
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
    ("the rights of all roles", in_first("ClusterRole", aggregationRule={"x": 1}), "an aggregationRule"),
    ("cluster-admin", in_first("ClusterRoleBinding", "roleRef", name="cluster-admin"), "bound to cluster-a"),
    (
        "rights for a group of people",
        lambda o: of_kind(o, "RoleBinding")[0]["subjects"][0].update(kind="Group", name="all"),
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
        lambda o: container(o)["volumeMounts"].append({"name": "token", "mountPath": "/token"}),
        "gpu-scheduler/extender: 2 identities, not one",
    ),
    (
        "kube-scheduler's rights for the extender",
        lambda o: of_kind(o, "ClusterRoleBinding")[0]["subjects"].append(
            {"kind": "ServiceAccount", "name": "gpu-scheduler-extender", "namespace": "gpu-scheduler"}
        ),
        "gpu-scheduler-extender: has rights of kube-scheduler",
    ),
    # Admission.
    ("agents for any node", without_kind("ValidatingAdmissionPolicy"), "writes gpunodes/status, and no"),
    (
        "a policy that only warns",
        in_first("ValidatingAdmissionPolicyBinding", "spec", validationActions=["Warn"]),
        "no binding of it denies",
    ),
    (
        "a policy that fails open",
        in_first("ValidatingAdmissionPolicy", "spec", failurePolicy="Ignore"),
        "lets pass what it fails on",
    ),
]

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
        lambda o: named(o, "ValidatingAdmissionPolicy", "gpu-scheduler-assignment")["spec"][
            "matchConstraints"
        ]["resourceRules"].pop(1),
        "no policy says who may assign GPUs by CREATE of bindings",
    ),
    ("a mutation of no pods", without_kind("MutatingAdmissionPolicyBinding"), "shares: nothing binds it"),
    (
        "a mutation that fails open",
        in_first("MutatingAdmissionPolicy", "spec", failurePolicy="Ignore"),
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
    ("objects", "change", "said"),
    [
        pytest.param(objects, change, said, id=name)
        for objects, table in ((base, OF_THE_BASE), (shares, OF_SHARES))
        for name, change, said in table
    ],
)
def test_a_rule_finds(objects: Callable[[], list[Json]], change: Change, said: str) -> None:
    found = objects()
    change(found)
    assert [broken for broken in violations(found) if said in broken]
