"""The shipped manifests follow the policy, and the policy finds violations."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.manifests.objects import Json, of_kind
from tests.manifests.policy import violations
from tests.manifests.shipped import (
    base,
    dra,
    dra_health,
    gangs,
    idle_reclaim,
    placeholders,
    planner,
    standalone,
)

Change = Callable[[list[Json]], None]


def test_the_base_keeps_it() -> None:
    assert violations(base()) == []


def test_the_scheduler_of_claims_keeps_it() -> None:
    assert violations(dra()) == []


def test_rules_about_devices_keep_it() -> None:
    assert violations(dra_health()) == []
    assert violations(placeholders()) == []
    assert violations(gangs()) == []


def test_planning_ahead_keeps_it() -> None:
    assert violations(planner()) == []


def test_reclaim_keeps_it() -> None:
    assert violations(idle_reclaim()) == []


def test_the_standalone_extender_keeps_it() -> None:
    assert violations(standalone()) == []


def agent(objects: list[Json]) -> Json:
    """The agents' pod specification."""
    (found,) = of_kind(objects, "DaemonSet")
    spec: Json = found["spec"]["template"]["spec"]
    return spec


def in_agent(**entries: Any) -> Change:
    return lambda objects: agent(objects).update(entries)


def in_agents_container(**entries: Any) -> Change:
    return lambda objects: agent(objects)["containers"][0]["securityContext"].update(entries)


def deployment(objects: list[Json]) -> Json:
    (found,) = of_kind(objects, "Deployment")
    return found


def pod_spec(objects: list[Json]) -> Json:
    spec: Json = deployment(objects)["spec"]["template"]["spec"]
    return spec


def container(objects: list[Json], name: str = "extender") -> Json:
    found: Json = next(each for each in pod_spec(objects)["containers"] if each["name"] == name)
    return found


def volume(objects: list[Json], name: str) -> Json:
    found: Json = next(each for each in pod_spec(objects)["volumes"] if each["name"] == name)
    return found


def mounting(of: str, name: str) -> Change:
    """A container that mounts this volume as its token."""

    def apply(objects: list[Json]) -> None:
        (mount,) = [m for m in container(objects, of)["volumeMounts"] if "serviceaccount" in m["mountPath"]]
        mount["name"] = name

    return apply


def token_secret(account: str) -> Change:
    return lambda objects: of_kind(objects, "Secret")[0]["metadata"]["annotations"].update(
        {"kubernetes.io/service-account.name": account}
    )


def config_map(objects: list[Json]) -> Json:
    (found,) = of_kind(objects, "ConfigMap")
    return found


def in_configuration(change: Callable[[Json], Any], write: Callable[[Json], str] = yaml.safe_dump) -> Change:
    """Change kube-scheduler's configuration inside its ConfigMap."""

    def apply(objects: list[Json]) -> None:
        data = config_map(objects)["data"]
        configuration = yaml.safe_load(data["kube-scheduler.yaml"])
        change(configuration)
        data["kube-scheduler.yaml"] = write(configuration)

    return apply


def half_of_the_nodes(configuration: Json) -> None:
    configuration["percentageOfNodesToScore"] = 50


def in_profile(**entries: Any) -> Change:
    return in_configuration(lambda configuration: configuration["profiles"][0].update(entries))


def in_plugins(name: str, weight: int, phase: str = "multiPoint") -> Change:
    """Another weight of a plugin, in the place where the profile has it or in another."""

    def change(configuration: Json) -> None:
        plugins = configuration["profiles"][0]["plugins"]
        enabled = plugins.setdefault(phase, {"enabled": []})["enabled"]
        enabled[:] = [each for each in enabled if each["name"] != name] + [{"name": name, "weight": weight}]

    return in_configuration(change)


def in_plugin_config(name: str, **args: Any) -> Change:
    def change(configuration: Json) -> None:
        plugins = configuration["profiles"][0]["pluginConfig"]
        next(each for each in plugins if each["name"] == name)["args"].update(args)

    return in_configuration(change)


def in_election(**entries: Any) -> Change:
    return in_configuration(lambda configuration: configuration["leaderElection"].update(entries))


def in_extender(**entries: Any) -> Change:
    return in_configuration(lambda configuration: configuration["extenders"][0].update(entries))


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


def in_pod(**entries: Any) -> Change:
    return lambda objects: pod_spec(objects).update(entries)


def in_container(**entries: Any) -> Change:
    return lambda objects: container(objects).update(entries)


def in_security_context(**entries: Any) -> Change:
    return lambda objects: container(objects)["securityContext"].update(entries)


def with_env(name: str, value: str = "1") -> Change:
    return lambda objects: container(objects)["env"].append({"name": name, "value": value})


def with_arguments(*arguments: str) -> Change:
    return lambda objects: container(objects)["args"].extend(arguments)


def with_init_container(**entries: Any) -> Change:
    """An init container that is the extender but for `entries`."""

    def apply(objects: list[Json]) -> None:
        pod_spec(objects)["initContainers"] = [{**container(objects), "name": "first", **entries}]

    return apply


def run_by(kind: str, template: Callable[[Json], Json]) -> Change:
    """The Deployment's pods once more, run by another kind and with the host's network."""

    def apply(objects: list[Json]) -> None:
        spec = {**pod_spec(objects), "hostNetwork": True}
        metadata = {"name": "other", "namespace": "gpu-scheduler"}
        objects.append({"kind": kind, "metadata": metadata, "spec": template(spec)})

    return apply


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


def in_ingress(rule: Json) -> Change:
    """The only rule of the base's second policy about incoming traffic."""

    def replace(objects: list[Json]) -> None:
        policies = [each for each in objects if each["kind"] == "NetworkPolicy"]
        (policy,) = [each for each in policies if each["metadata"]["name"] == "gpu-scheduler"]
        policy["spec"]["ingress"] = [rule]

    return replace


CLIENT = {"certFile": "/etc/gpu-scheduler/c", "keyFile": "/etc/gpu-scheduler/k"}

BROKEN: list[tuple[str, Change, str]] = [
    ("HTTPS without a CA", https(**CLIENT), "enableHTTPS without a CA"),
    (
        "HTTPS without a client certificate",
        https(caFile="/etc/gpu-scheduler/a"),
        "enableHTTPS without a client certificate",
    ),
    (
        "a CA that is not looked at",
        https(caFile="/etc/gpu-scheduler/a", insecure="true", **CLIENT),
        "tlsConfig.insecure",
    ),
    ("an https URL without HTTPS", in_extender(urlPrefix="https://x"), "enableHTTPS does not go with"),
    (
        "plain HTTP over the network",
        in_extender(urlPrefix="http://extender:8888"),
        "plain HTTP over the network",
    ),
    ("HTTPS without anything", in_extender(enableHTTPS=True, tlsConfig=None), "enableHTTPS without a CA"),
    ("HTTPS with an empty CA", https(caData=" ", **CLIENT), "enableHTTPS without a CA"),
    (
        "a CA that is not there",
        https(caFile="/nowhere/ca.crt", **CLIENT),
        "caFile /nowhere/ca.crt is in no volume",
    ),
    ("a certificate of another host", https(serverName="other", **CLIENT), "serverName is not the host"),
    ("a URL without a scheme", in_extender(urlPrefix="extender:8888"), "begins with neither"),
    ("a URL with half a scheme", in_extender(urlPrefix="//extender:8888"), "begins with neither"),
    ("a sample of the nodes", in_configuration(half_of_the_nodes), "percentageOfNodesToScore is 50"),
    (
        "a sample of the nodes, in JSON",
        in_configuration(half_of_the_nodes, json.dumps),
        "percentageOfNodesToScore is 50",
    ),
    (
        "a sample of the nodes, in a second document",
        in_configuration(half_of_the_nodes, lambda value: f"a: 1\n---\n{yaml.safe_dump(value)}"),
        "percentageOfNodesToScore is 50",
    ),
    (
        "a sample of the nodes, in binary",
        lambda o: config_map(o).update(
            binaryData={"x": base64.b64encode(b'{"kind": "KubeSchedulerConfiguration"}').decode()}
        ),
        "percentageOfNodesToScore is None",
    ),
    (
        "a sample of the nodes for one profile",
        in_profile(percentageOfNodesToScore=5),
        "percentageOfNodesToScore is 5,",
    ),
    ("no configuration", lambda o: config_map(o).update(data=None), "no KubeSchedulerConfiguration"),
    (
        "a scheduler that is not told its configuration",
        lambda o: container(o, "kube-scheduler").update(args=[]),
        "without --config",
    ),
    ("the default scheduler's pods", in_profile(schedulerName="default-scheduler"), "a profile is the def"),
    (
        "no profiles",
        in_configuration(lambda configuration: configuration.pop("profiles")),
        "a profile is the default scheduler's",
    ),
    ("no election", in_election(leaderElect=False), "leaderElect is not true"),
    ("the default scheduler's Lease", in_election(resourceName="kube-scheduler"), "the Lease is the default"),
    (
        "kube-scheduler's own sample",
        in_configuration(lambda configuration: configuration.pop("percentageOfNodesToScore")),
        "percentageOfNodesToScore is None",
    ),
    *(
        (f"{name} below packing", in_plugins(name, 20_900), f"a step of {name} counts less")
        for name in ("NodeAffinity", "InterPodAffinity", "PodTopologySpread")
    ),
    (
        "a weight for the score alone",
        in_plugins("NodeAffinity", 2, "score"),
        "a step of NodeAffinity counts less",
    ),
    ("kube-scheduler's own weights", in_profile(plugins={}), "a step of InterPodAffinity counts less"),
    ("a larger weight of the extender", in_extender(weight=1000), "a step of NodeAffinity counts less"),
    ("an extender of little weight", in_extender(weight=90), "a point of the extender counts 900,"),
    (
        "the affinity of other pods",
        in_plugin_config("InterPodAffinity", hardPodAffinityWeight=1),
        "hardPodAffinityWeight is not 0",
    ),
    (
        "the preferences of other pods",
        in_plugin_config("InterPodAffinity", ignorePreferredTermsOfExistingPods=False),
        "ignorePreferredTermsOfExistingPods is not true",
    ),
    (
        "kube-scheduler's own spread",
        in_plugin_config("PodTopologySpread", defaultingType="System"),
        "has default constraints",
    ),
    (
        "a spread that no pod states",
        in_plugin_config("PodTopologySpread", defaultConstraints=[{"topologyKey": "zone"}]),
        "has default constraints",
    ),
    ("no arguments of plugins", in_profile(pluginConfig=None), "has default constraints"),
    ("no managed resources", in_extender(managedResources=[]), "managedResources is empty"),
    (
        "processors as managed resources",
        in_extender(managedResources=[{"name": "cpu"}]),
        "'cpu', which is no",
    ),
    ("a managed resource without a name", in_extender(managedResources=[{}]), "'', which is no GPU"),
    (
        "GPUs that no component counts",
        in_extender(managedResources=[{"name": "nvidia.com/gpu", "ignoredByScheduler": True}]),
        "nvidia.com/gpu is ignoredByScheduler",
    ),
    ("an extender that may fail", in_extender(ignorable=True), "ignorable is true"),
    ("whole Node objects", in_extender(nodeCacheCapable=False), "nodeCacheCapable"),
    ("no extender", in_configuration(lambda configuration: configuration.pop("extenders")), "no extender"),
    ("workers by flag", with_arguments("--workers=2"), "--workers=2 sets the number of workers"),
    ("workers by two words", with_arguments("--workers", "2"), "--workers sets the number of workers"),
    ("workers by a short flag", with_arguments("-w2"), "-w2 sets the number of workers"),
    (
        "workers by the command",
        in_container(command=["scheduler-ext", "serve", "--workers=2"], args=[]),
        "--workers=2 sets the number of workers",
    ),
    (
        "workers by a shell",
        in_container(command=["/bin/sh", "-c"], args=["exec scheduler-ext serve --workers 2"]),
        "exec scheduler-ext serve --workers 2 sets the number of workers",
    ),
    (
        "a shell",
        in_container(command=["/bin/sh", "-c"], args=["exec scheduler-ext serve $MORE"]),
        "started through /bin/sh",
    ),
    ("workers by a variable of ours", with_env("MORE", "--workers=2"), "MORE sets the number of workers"),
    ("workers by gunicorn's arguments", with_env("GUNICORN_CMD_ARGS"), "GUNICORN_CMD_ARGS sets"),
    ("workers by WEB_CONCURRENCY", with_env("WEB_CONCURRENCY"), "WEB_CONCURRENCY sets"),
    (
        "workers by whatever a ConfigMap says",
        in_container(envFrom=[{"configMapRef": {"name": "c"}}]),
        "envFrom may set anything",
    ),
    (
        "workers of an extender that starts as a sidecar",
        with_init_container(restartPolicy="Always", args=["serve", "--workers=2"]),
        "first: --workers=2 sets the number of workers",
    ),
    ("inspection for everybody", with_arguments("--inspect-listen=0.0.0.0:8890"), "inspection listener"),
    ("the API for everybody", with_arguments("--listen=0.0.0.0:8888"), "without client certificates"),
    ("the API for everybody by two words", with_arguments("--listen", "[::]:8888"), "without client cert"),
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
        for key in ("runAsNonRoot", "runAsUser", "runAsGroup", "seccompProfile")
    ),
    *(
        (
            f"a container without {key}",
            lambda o, k=key: container(o, "kube-scheduler").pop(k),
            f"{key} is missing",
        )
        for key in ("startupProbe", "livenessProbe", "readinessProbe")
    ),
    ("a probe of nothing", in_container(livenessProbe=None), "livenessProbe is missing"),
    ("a container without a context", in_container(securityContext=None), "allowPrivilegeEscalation is not"),
    ("a privileged container", in_security_context(privileged=True), "privileged is set"),
    ("a container of root", in_security_context(runAsUser=0), "extender: securityContext.runAsUser is root"),
    (
        "a container of root's group",
        in_security_context(runAsGroup=0),
        "extender: securityContext.runAsGroup",
    ),
    ("a container that may be root", in_security_context(runAsNonRoot=False), "runAsNonRoot is not True"),
    (
        "a container of any system call",
        in_security_context(seccompProfile={"type": "Unconfined"}),
        "extender: securityContext.seccompProfile",
    ),
    ("a port of the host", in_container(ports=[{"containerPort": 1, "hostPort": 1}]), "a hostPort"),
    (
        "an init container without limits",
        with_init_container(resources={}),
        "first: resources.limits.memory is missing",
    ),
    (
        "an init container that may write anywhere",
        with_init_container(securityContext={}),
        "first: securityContext.readOnlyRootFilesystem",
    ),
    (
        "a sidecar that is not probed",
        with_init_container(restartPolicy="Always", readinessProbe=None),
        "first: readinessProbe is missing",
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
    ("an image without a tag", in_container(image="scheduler-ext"), "names no version"),
    ("a registry's port for a tag", in_container(image="registry:5000/scheduler-ext"), "names no version"),
    (
        "a token mounted by default",
        lambda o: pod_spec(o).pop("automountServiceAccountToken"),
        "automountServiceAccountToken",
    ),
    (
        "a token for a year",
        lambda o: volume(o, "token")["projected"]["sources"][0]["serviceAccountToken"].update(
            expirationSeconds=31536000
        ),
        "lives longer than an hour",
    ),
    ("the host's network", in_pod(hostNetwork=True), "hostNetwork"),
    ("one process namespace for all", in_pod(shareProcessNamespace=True), "shareProcessNamespace"),
    *(
        (f"the host's network by a {kind}", run_by(kind, template), f"{kind} other: hostNetwork")
        for kind, template in (
            *(
                (kind, lambda spec: {"template": {"spec": spec}})
                for kind in ("StatefulSet", "ReplicaSet", "DaemonSet", "Job")
            ),
            ("CronJob", lambda spec: {"jobTemplate": {"spec": {"template": {"spec": spec}}}}),
            ("Pod", lambda spec: spec),
        )
    ),
    ("any operating system", lambda o: pod_spec(o).pop("nodeSelector"), "does not ask for Linux"),
    ("pods elsewhere", in_first("Deployment", "metadata", namespace="default"), "in namespace default"),
    (
        "a directory of the host",
        lambda o: pod_spec(o)["volumes"].append({"name": "h", "hostPath": {"path": "/"}}),
        "hostPath",
    ),
    ("no priority", lambda o: pod_spec(o).pop("priorityClassName"), "priorityClassName"),
    ("one replica", lambda o: deployment(o)["spec"].update(replicas=1), "fewer than two replicas"),
    ("all on one node", lambda o: pod_spec(o).pop("topologySpreadConstraints"), "not spread"),
    ("no disruption budget", without_kind("PodDisruptionBudget"), "no PodDisruptionBudget"),
    ("a budget elsewhere", in_first("PodDisruptionBudget", "metadata", namespace="x"), "no PodDisruptionB"),
    ("a budget of nothing", in_first("PodDisruptionBudget", "spec", minAvailable=0), "minAvailable 0 of 2"),
    ("a budget of all", in_first("PodDisruptionBudget", "spec", minAvailable=2), "minAvailable 2 of 2"),
    (
        "a budget that keeps what cannot start",
        in_first("PodDisruptionBudget", "spec", unhealthyPodEvictionPolicy="IfHealthyBudget"),
        "keep their nodes from being drained",
    ),
    ("no network policy", without_kind("NetworkPolicy"), "no NetworkPolicy of its own"),
    ("nothing refused", without_object("nothing-else"), "no NetworkPolicy refuses what no other allows"),
    ("anybody in", in_first("NetworkPolicy", "spec", ingress=[{}]), "ingress from and to anybody"),
    (
        "every namespace in",
        in_ingress({"from": [{"namespaceSelector": {}}], "ports": [{"port": 8889}]}),
        "ingress from every pod of the cluster",
    ),
    (
        "every pod of a namespace in",
        in_ingress({"from": [{"namespaceSelector": {"matchLabels": {"a": "b"}}}]}),
        "ingress from every pod of the cluster or of a namespace",
    ),
    (
        "any pod in beside a chosen one",
        in_ingress({"from": [{"podSelector": {"matchLabels": {"a": "b"}}}, {"podSelector": {}}]}),
        "ingress from every pod",
    ),
    ("anybody in at one port", in_ingress({"ports": [{"port": 8889}]}), "ingress from every pod"),
    ("out to anybody", in_first("NetworkPolicy", "spec", egress=[{}]), "egress from and to anybody"),
    ("a load balancer", with_object("Service", spec={"type": "LoadBalancer"}), "outside the cluster"),
    ("an ingress", with_object("Ingress"), "outside the cluster"),
    ("any verb", in_rule(verbs=["*"]), "a wildcard in verbs"),
    ("any resource", in_rule(resources=["*"]), "a wildcard in resources"),
    ("any subresource", in_rule(resources=["pods/*"]), "a wildcard in resources"),
    ("any group", in_rule(apiGroups=["*"]), "a wildcard in apiGroups"),
    ("any path", in_rule(nonResourceURLs=["*"]), "a wildcard in nonResourceURLs"),
    ("secrets", in_rule(resources=["secrets"]), "access to secrets"),
    ("a shell in any pod", in_rule(resources=["pods/exec"]), "access to pods/exec"),
    ("tokens for anybody", in_rule(resources=["serviceaccounts/token"]), "access to serviceaccounts/token"),
    (
        "rights over rights",
        in_rule(apiGroups=["rbac.authorization.k8s.io"], resources=["clusterroles"], verbs=["update"]),
        "it could give itself rights",
    ),
    (
        "the rights of all roles",
        in_first("ClusterRole", aggregationRule={"clusterRoleSelectors": [{}]}),
        "an aggregationRule",
    ),
    (
        "rights for all who may edit",
        in_first("ClusterRole", "metadata", labels={"rbac.authorization.k8s.io/aggregate-to-edit": "true"}),
        "widens other roles",
    ),
    ("impersonation", in_rule(verbs=["impersonate"]), "the verb impersonate"),
    (
        "cluster-admin",
        in_first("ClusterRoleBinding", "roleRef", name="cluster-admin"),
        "bound to cluster-adm",
    ),
    (
        "the rights of another part of Kubernetes",
        in_first("ClusterRoleBinding", "roleRef", name="system:kube-controller-manager"),
        "bound to system:kube-controller-manager",
    ),
    (
        "rights for another user's pods",
        lambda o: of_kind(o, "RoleBinding")[0]["subjects"][0].update(namespace="default"),
        "given to ServiceAccount",
    ),
    (
        "rights for a group of people",
        lambda o: of_kind(o, "RoleBinding")[0]["subjects"][0].update(
            kind="Group", name="system:authenticated"
        ),
        "given to Group",
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
    ("the host's network for the agent", in_agent(hostNetwork=True), "hostNetwork is set"),
    ("the host's processes for the agent", in_agent(hostPID=True), "hostPID is set"),
    ("a privileged agent", in_agents_container(privileged=True), "privileged is set"),
    (
        "an agent with a capability",
        in_agents_container(capabilities={"add": ["SYS_ADMIN"], "drop": ["ALL"]}),
        "capabilities is not",
    ),
    (
        "another pod beside the agents",
        lambda o: deployment(o)["metadata"].update(namespace="gpu-scheduler-agent"),
        "not among the restricted ones",
    ),
    (
        "agents that may write for any node",
        without_kind("ValidatingAdmissionPolicy"),
        "writes gpunodes/status, and no policy says which",
    ),
    (
        "a policy that nothing binds",
        without_kind("ValidatingAdmissionPolicyBinding"),
        "no binding of it denies",
    ),
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
    (
        "a token for ever",
        with_object("Secret", type="kubernetes.io/service-account-token"),
        "a token that never ends",
    ),
    ("kube-scheduler's token for ever", token_secret("gpu-scheduler"), "a token that never ends"),
    (
        "a token for ever where the pod's own would do",
        in_pod(serviceAccountName="gpu-scheduler-extender"),
        "a token that never ends",
    ),
    (
        "kube-scheduler's token for the extender",
        mounting("extender", "token"),
        "gpu-scheduler/extender: has kube-scheduler's identity",
    ),
    (
        "kube-scheduler's token for the extender, by a Secret",
        token_secret("gpu-scheduler"),
        "gpu-scheduler/extender: has kube-scheduler's identity",
    ),
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
    (
        "a token for every pod of the account",
        in_first("ServiceAccount", automountServiceAccountToken=True),
        "ServiceAccount gpu-scheduler: automountServiceAccountToken",
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


def ending_pod(spec: Json) -> list[Json]:
    """The base, and the extender's container in a pod that ends, without its probes and its token."""
    objects = base()
    confined = {
        key: pod_spec(objects)[key] for key in ("securityContext", "nodeSelector", "priorityClassName")
    }
    test = {key: value for key, value in container(objects).items() if not key.endswith("Probe")}
    test |= {"command": ["python3"], "args": ["-V"], "volumeMounts": []}
    metadata = {"name": "test", "namespace": "gpu-scheduler"}
    own = {**confined, "automountServiceAccountToken": False, "containers": [test], **spec}
    return [*objects, {"kind": "Pod", "metadata": metadata, "spec": own}]


def test_a_pod_that_ends_needs_neither_probes_nor_an_identity() -> None:
    assert violations(ending_pod({"restartPolicy": "Never"})) == []


def test_a_pod_that_goes_on_running_needs_both() -> None:
    found = violations(ending_pod({}))
    assert sum("Probe is missing" in each for each in found) == 3
    assert any("0 identities" in each for each in found)
