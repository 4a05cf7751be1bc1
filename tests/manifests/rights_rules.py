"""Permitted rights and their holders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.manifests.objects import (
    Json,
    containers_of,
    ends,
    entries,
    kube_schedulers,
    mapping,
    namespace_of,
    of_kind,
    pods,
    title,
)

_FORBIDDEN_VERBS = {"escalate", "bind", "impersonate"}
# Each of these rights lets its holder act as another user.
_FORBIDDEN_RESOURCES = {
    "secrets",
    "pods/exec",
    "pods/attach",
    "pods/portforward",
    "pods/ephemeralcontainers",
    "nodes/proxy",
    "services/proxy",
    "pods/proxy",
    "serviceaccounts/token",
}
_READING = {"get", "list", "watch"}
_BOUND = {"nodes", "nodes/status", "gpunodes", "gpunodes/status", "pods/status"}
_RBAC = "rbac.authorization.k8s.io"
# Kubernetes' own roles that its scheduler needs; everything else must be spelled out here.
_ROLES_OF_OTHERS = {
    "system:kube-scheduler",
    "system:volume-scheduler",
    "extension-apiserver-authentication-reader",
}
_TOKEN_SECRET = "kubernetes.io/service-account-token"
_EXTENDER = "gpu-scheduler-extender"
_WIDENED = ("rbac.authorization.k8s.io/aggregate-to-edit", "rbac.authorization.k8s.io/aggregate-to-admin")


def rights_are_spelled_out(objects: Sequence[Json]) -> Iterator[str]:
    for role in of_kind(objects, "Role", "ClusterRole"):
        if role.get("aggregationRule"):
            yield f"{title(role)}: an aggregationRule, whose rights stand elsewhere"
        for label in _WIDENED:
            if label in mapping(role, "metadata", "labels"):
                yield f"{title(role)}: widens other roles by {label}"
        for rule in entries(role, "rules"):
            for broken in _broken_in(rule):
                yield f"{title(role)}: {broken}"


def _broken_in(rule: Json) -> Iterator[str]:
    for key in ("apiGroups", "resources", "verbs", "nonResourceURLs"):
        if any("*" in each for each in entries(rule, key)):
            yield f"a wildcard in {key}"
    verbs = set(entries(rule, "verbs"))
    for verb in sorted(_FORBIDDEN_VERBS & verbs):
        yield f"the verb {verb}"
    for resource in sorted(_FORBIDDEN_RESOURCES.intersection(entries(rule, "resources"))):
        yield f"access to {resource}"
    if _RBAC in entries(rule, "apiGroups") and not verbs <= _READING:
        yield "it could give itself rights"


def rights_are_given_to_our_own(objects: Sequence[Json]) -> Iterator[str]:
    roles = {each["metadata"]["name"] for each in of_kind(objects, "Role", "ClusterRole")}
    accounts = {(namespace_of(each), each["metadata"]["name"]) for each in of_kind(objects, "ServiceAccount")}
    for binding in of_kind(objects, "RoleBinding", "ClusterRoleBinding"):
        role = binding["roleRef"]["name"]
        if role not in roles | _ROLES_OF_OTHERS:
            yield f"{title(binding)}: bound to {role}"
        for subject in entries(binding, "subjects"):
            account = subject.get("namespace"), subject["name"]
            if subject["kind"] != "ServiceAccount" or account not in accounts:
                yield f"{title(binding)}: given to {subject['kind']} {subject['name']}"


def tokens_are_short_lived(objects: Sequence[Json]) -> Iterator[str]:
    """But for the extender's beside kube-scheduler, whose pod has another identity."""
    for secret in of_kind(objects, "Secret"):
        if secret.get("type") != _TOKEN_SECRET:
            continue
        if _account_of(secret) != _EXTENDER or _EXTENDER in {_pod_account(spec) for _, spec in pods(objects)}:
            yield f"{title(secret)}: a token that never ends"
    for account in of_kind(objects, "ServiceAccount"):
        if account.get("automountServiceAccountToken") is not False:
            yield f"{title(account)}: automountServiceAccountToken is not false"


def containers_have_their_own_identity(objects: Sequence[Json]) -> Iterator[str]:
    """Kubernetes' own roles are for kube-scheduler's container, whose token is short-lived."""
    powerful = {
        subject["name"]
        for binding in of_kind(objects, "RoleBinding", "ClusterRoleBinding")
        if binding["roleRef"]["name"] in _ROLES_OF_OTHERS
        for subject in entries(binding, "subjects")
    }
    if _EXTENDER in powerful:
        yield f"ServiceAccount {_EXTENDER}: has rights of kube-scheduler"
    schedulers = [container for _, container in kube_schedulers(objects)]
    for where, spec in pods(objects):
        for container in containers_of(spec):
            found = mounted_accounts(objects, spec, container)
            if len(found) > 1 or not (found or ends(spec)):
                yield f"{where}/{container['name']}: {len(found)} identities, not one"
            if container not in schedulers and powerful & found:
                yield f"{where}/{container['name']}: has kube-scheduler's identity"
            if container in schedulers and _EXTENDER in found:
                yield f"{where}/{container['name']}: has the extender's identity"


def mounted_accounts(objects: Sequence[Json], spec: Json, container: Json) -> set[str]:
    """The ServiceAccounts whose token a container mounts."""
    accounts = {each["metadata"]["name"]: _account_of(each) for each in of_kind(objects, "Secret")}
    volumes = {volume["name"]: volume for volume in entries(spec, "volumes")}
    found = set()
    for mount in entries(container, "volumeMounts"):
        volume = volumes.get(mount["name"], {})
        named = mapping(volume, "secret").get("secretName")
        sources = [*entries(volume, "projected", "sources"), {"secret": {"name": named}}]
        for source in sources:
            if "serviceAccountToken" in source:
                found.add(_pod_account(spec))
            found.add(accounts.get(mapping(source, "secret").get("name"), ""))
    return found - {""}


def _account_of(secret: Json) -> str:
    """The ServiceAccount of a token's Secret; empty for other Secrets."""
    account = mapping(secret, "metadata", "annotations").get("kubernetes.io/service-account.name", "")
    return str(account) if secret.get("type") == _TOKEN_SECRET else ""


def _pod_account(spec: Json) -> str:
    return str(spec.get("serviceAccountName", "default"))


def writing_is_bound_by_a_policy(objects: Sequence[Json]) -> Iterator[str]:
    """A role cannot say which Node or GPUNode; where one gives the right to write them, a policy must."""
    bound = set()
    binding = {
        each["spec"]["policyName"]
        for each in of_kind(objects, "ValidatingAdmissionPolicyBinding")
        if entries(each, "spec", "validationActions") == ["Deny"]
    }
    for policy in of_kind(objects, "ValidatingAdmissionPolicy"):
        if policy["metadata"]["name"] not in binding:
            yield f"{title(policy)}: no binding of it denies"
        elif policy["spec"].get("failurePolicy", "Fail") != "Fail":
            yield f"{title(policy)}: lets pass what it fails on"
        else:
            for rule in entries(policy, "spec", "matchConstraints", "resourceRules"):
                bound |= set(entries(rule, "resources"))
    for role in of_kind(objects, "ClusterRole"):
        for rule in entries(role, "rules"):
            for resource in entries(rule, "resources"):
                if set(entries(rule, "verbs")) <= _READING or resource not in _BOUND:
                    continue
                if resource not in bound:
                    yield f"{title(role)}: writes {resource}, and no policy says which"


RULES = (
    rights_are_spelled_out,
    rights_are_given_to_our_own,
    tokens_are_short_lived,
    containers_have_their_own_identity,
    writing_is_bound_by_a_policy,
)
