"""Make the parts of the Helm chart that other files of the repository define already.

    python manifests/charts/generate.py [--check]

Most objects of the chart become templates, with their comments, from the manifests that kustomize installs.
Objects with many values (Deployments, DaemonSet, NetworkPolicies, ConfigMaps) have templates written by hand.
The schema of `extender.config` and the bounds of its durations come from the product. --check writes nothing,
and fails if a file is outdated.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from scheduler_ext.wire.config import Configuration, KernelConfiguration, duration_bounds, feature_sections
from scheduler_ext.wire.times import duration_text

ROOT = Path(__file__).parents[2]
CHART = Path(__file__).parent / "gpu-scheduler"
BASE, AGENT, COMPONENTS = "manifests/base", "manifests/agent", "manifests/components"

STANDALONE, SHARES = ".Values.standalone.enabled", ".Values.shares.enabled"
RECLAIMS = 'ne .Values.idle.reclaim "off"'
OF_SCHEDULERS = {"in ['gpu-scheduler']": "in ['{{ .Values.schedulerName }}']"}
GANGS = ".Values.gangs.enabled"
AGENTS, QUOTA = ".Values.agent.enabled", ".Values.criticalPodsQuota"
# The namespaces of the manifests become these.
NAMESPACE = "{{ .Release.Namespace }}"
AGENT_NAMESPACE = "{{ .Values.agent.namespace.name }}"
LABEL = "app.kubernetes.io/name: gpu-scheduler"


@dataclass(frozen=True)
class Copied:
    """A template from a manifest: which of its documents, and under which condition.

    `conditions` are those of single documents, by a line in them; `replaced` are further replacements, and
    each must be found. `kinds` are the copied ones, or all. `labels` is the template of further labels.
    """

    source: str
    target: str
    condition: str = ""
    conditions: Mapping[str, str] = field(default_factory=dict)
    replaced: Mapping[str, str] = field(default_factory=dict)
    kinds: Sequence[str] = ()
    labels: str = "gpu-scheduler.furtherLabels"


NO_LABEL_SYNC = '    security.openshift.io/scc.podSecurityLabelSync: "false"\n'
NO_WARNINGS = (
    "    pod-security.kubernetes.io/warn: privileged\n    pod-security.kubernetes.io/audit: privileged\n"
)


def _openshift(lines: str) -> str:
    return f"{{{{- if .Values.openshift }}}}\n{lines}{{{{- end }}}}\n"


KEPT = "  annotations: {helm.sh/resource-policy: keep}\n"
BUDGET = "gt (int .Values.scheduler.replicas) 1"
SCHEDULERS = {"\"['gpu-scheduler']\"": "\"['{{ .Values.schedulerName }}']\""}
# The extender may have further ones, which the kube-scheduler of the chart does not serve.
_NAMES = ".Values.extender.config.schedulerNames | default (list .Values.schedulerName)"
ALL_SCHEDULERS = {"\"['gpu-scheduler']\"": f"\"['{{{{ {_NAMES} | join \"', '\" }}}}']\""}
RESOURCES = {
    "'nvidia.com/gpu', 'nvidia.com/gpu.shared', 'amd.com/gpu', 'gpu.intel.com/i915', 'gpu.intel.com/xe',\n"
    "        'habana.ai/gaudi', 'gpu.scheduler-ext.io/memory-mib'": (
        "'{{ include \"gpu-scheduler.gpuResources\" . }}'"
    )
}
BY_VARIABLE = {
    'byVariable\n      expression: "true"': 'byVariable\n      expression: "{{ not .Values.shares.cdi }}"'
}
NOT_RECLAIMED = """\
{{- if .Values.gangs.enabled }}
    - name: not-of-a-gang
      expression: >-
        request.?subResource.orValue('') == 'eviction'
        ? !('gpu.scheduler-ext.io/evicted-for' in object.metadata.?annotations.orValue({}))
        : oldObject.spec.?schedulingGates.orValue([]) == object.spec.?schedulingGates.orValue([])
{{- end }}
"""
PROTECTED = {"['gpu-scheduler', 'kube-system']": f"['{NAMESPACE}', 'kube-system']"}
EXTENDERS = '{{ include "gpu-scheduler.extenders" . }}'
INSPECTED = '{{ include "gpu-scheduler.inspected" . }}'
ALERTS = {
    "http://localhost:8890/runbooks/": '{{ trimSuffix "/" .Values.monitoring.runbooks }}/',
    "kubectl -n gpu-scheduler ": f"kubectl -n {NAMESPACE} ",
    "deployment/gpu-scheduler 8890": f"deployment/{INSPECTED} 8890",
    "(gpu_extender_ready) < 2": f"(gpu_extender_ready) < {EXTENDERS}",
    " of 2 GPU extenders": f" of {EXTENDERS} GPU extenders",
}
COPIES = (
    Copied(
        f"{BASE}/namespace.yaml",
        "scheduler/namespace.yaml",
        conditions={"kind: Namespace": ".Values.namespace.create", "kind: ResourceQuota": QUOTA},
        replaced={
            "  name: gpu-scheduler\n": f"  name: {NAMESPACE}\n{KEPT}",
            "audit: restricted\n": f"audit: restricted\n{_openshift(NO_LABEL_SYNC)}",
            'pods: "8"': 'pods: {{ include "gpu-scheduler.criticalPods" . | quote }}',
        },
    ),
    Copied(f"{BASE}/service-account.yaml", "scheduler/service-account.yaml"),
    Copied(f"{BASE}/extender-token.yaml", "scheduler/extender-token.yaml", f"not {STANDALONE}"),
    Copied(
        f"{BASE}/roles.yaml",
        "scheduler/roles.yaml",
        conditions={"name: gpu-scheduler-lease-reader": f"not {STANDALONE}"},
    ),
    Copied(
        f"{BASE}/role-bindings.yaml",
        "scheduler/role-bindings.yaml",
        conditions={
            "name: gpu-scheduler-authentication-reader": ".Values.authenticationReader",
            "name: gpu-scheduler-lease-reader": f"not {STANDALONE}",
        },
    ),
    Copied(
        f"{BASE}/notices.yaml",
        "scheduler/notices.yaml",
        replaced={"[nodes, nodes/status]": f"[nodes{{{{ if not {SHARES} }}}}, nodes/status{{{{ end }}}}]"},
    ),
    Copied(f"{BASE}/nominations.yaml", "scheduler/nominations.yaml", replaced=ALL_SCHEDULERS),
    Copied(f"{BASE}/disruption-budget.yaml", "scheduler/disruption-budget.yaml", BUDGET),
    Copied(
        f"{BASE}/crd.yaml",
        "crds/gpunodes.yaml",
        ".Values.crds.install",
        replaced={
            "  name: gpunodes.gpu.scheduler-ext.io\n": f"  name: gpunodes.gpu.scheduler-ext.io\n{KEPT}"
        },
    ),
    Copied(
        f"{AGENT}/namespace.yaml",
        "agent/namespace.yaml",
        AGENTS,
        conditions={"kind: Namespace": ".Values.agent.namespace.create", "kind: ResourceQuota": QUOTA},
        replaced={
            "  name: gpu-scheduler-agent\n": f"  name: {AGENT_NAMESPACE}\n",
            "enforce: privileged\n": f"enforce: privileged\n{_openshift(NO_LABEL_SYNC + NO_WARNINGS)}",
        },
    ),
    Copied(
        f"{COMPONENTS}/openshift/security-context-constraints.yaml",
        "scheduler/security-context-constraints.yaml",
        ".Values.openshift",
        conditions={"name: gpu-scheduler-agent-privileged": AGENTS},
    ),
    Copied(f"{AGENT}/service-account.yaml", "agent/service-account.yaml", AGENTS),
    Copied(f"{AGENT}/roles.yaml", "agent/roles.yaml", AGENTS),
    Copied(f"{AGENT}/own-node-only.yaml", "agent/own-node-only.yaml", AGENTS),
    Copied(
        f"{COMPONENTS}/shares/crd.yaml",
        "crds/gpureservations.yaml",
        f"and .Values.crds.install {SHARES}",
        replaced={
            "  name: gpureservations.gpu.scheduler-ext.io\n": "  name: gpureservations.gpu.scheduler-ext.io\n"
            + KEPT
        },
    ),
    Copied(f"{COMPONENTS}/shares/roles.yaml", "shares/roles.yaml", SHARES),
    Copied(f"{COMPONENTS}/shares/capacity-only.yaml", "shares/capacity-only.yaml", SHARES),
    Copied(f"{COMPONENTS}/shares/assignment.yaml", "shares/assignment.yaml", SHARES),
    Copied(
        f"{COMPONENTS}/shares/mutation.yaml",
        "shares/mutation.yaml",
        SHARES,
        replaced=SCHEDULERS | BY_VARIABLE,
    ),
    Copied(
        f"{COMPONENTS}/shares/share-pods.yaml",
        "shares/share-pods.yaml",
        SHARES,
        replaced=SCHEDULERS | BY_VARIABLE,
    ),
    *(
        Copied(
            f"{COMPONENTS}/shares-cdi/{name}.yaml",
            f"shares/cdi-{name}.yaml",
            f"and {SHARES} .Values.shares.cdi",
        )
        for name in ("binding", "container-names")
    ),
    Copied(
        f"{COMPONENTS}/standalone-mtls/extender.yaml",
        "standalone/roles.yaml",
        STANDALONE,
        kinds=("Lease", "Role", "RoleBinding"),
    ),
    Copied(f"{COMPONENTS}/standalone-mtls/service.yaml", "standalone/service.yaml", STANDALONE),
    Copied(
        f"{COMPONENTS}/standalone-mtls/disruption-budget.yaml",
        "standalone/disruption-budget.yaml",
        f"and {STANDALONE} (gt (int .Values.standalone.replicas) 1)",
    ),
    *(
        Copied(
            f"{COMPONENTS}/placeholders/{name}.yaml",
            f"placeholders/{name}.yaml",
            ".Values.placeholders.enabled",
        )
        for name in ("namespace", "roles", "priority-class", "budget")
    ),
    Copied(
        f"{COMPONENTS}/model-affinity/policy.yaml",
        "model-affinity/policy.yaml",
        ".Values.modelAffinity.enabled",
        replaced=ALL_SCHEDULERS | RESOURCES,
    ),
    Copied(f"{COMPONENTS}/dra-health/roles.yaml", "dra/roles.yaml", ".Values.dra.deviceTaints"),
    Copied(f"{COMPONENTS}/idle-reclaim/roles.yaml", "idle/roles.yaml", RECLAIMS),
    Copied(
        f"{COMPONENTS}/idle-reclaim/reclaim-only.yaml",
        "idle/reclaim-only.yaml",
        RECLAIMS,
        replaced=PROTECTED | {"gpu-scheduler-extender'\n": f"gpu-scheduler-extender'\n{NOT_RECLAIMED}"},
    ),
    Copied(f"{COMPONENTS}/gangs/roles.yaml", "gangs/roles.yaml", GANGS),
    Copied(
        f"{COMPONENTS}/gangs/gate.yaml",
        "gangs/gate.yaml",
        GANGS,
        replaced=OF_SCHEDULERS,
    ),
    Copied(f"{COMPONENTS}/gangs/gangs-only.yaml", "gangs/gangs-only.yaml", GANGS, replaced=PROTECTED),
    *(
        Copied(
            f"{COMPONENTS}/monitoring/{name}.yaml",
            f"monitoring/{name}.yaml",
            ".Values.monitoring.enabled",
            labels="gpu-scheduler.monitoringLabels",
            replaced=replaced,
        )
        for name, replaced in (("pod-monitor", {}), ("rules", ALERTS))
    ),
)
VERBATIM = {
    "config/kube-scheduler.yaml": "files/kube-scheduler.yaml",
    "config/default.yaml": "files/extender.yaml",
    f"{COMPONENTS}/monitoring/dashboard.json": "files/dashboard.json",
}


def template(copied: Copied) -> str:
    """The text of a template, with a condition around each document that has one."""
    text = (ROOT / copied.source).read_text()
    # Expressions of Prometheus' templates are text for Helm.
    text = re.sub(r"\{\{.*?\}\}", lambda found: f"{{{{`{found[0]}`}}}}", text)
    for old, new in copied.replaced.items():
        if old not in text:
            raise ValueError(f"{copied.source} has no {old!r}")
        text = text.replace(old, new)
    documents = list(
        _conditional(_of_kinds(_parameterised(text, copied.labels), copied.kinds), copied.conditions)
    )
    whole = "---\n".join(documents)
    if copied.condition:
        whole = f"{{{{- if {copied.condition} }}}}\n{whole}{{{{- end }}}}\n"
    origin = f"Generated from {copied.source}; change it there (manifests/charts/generate.py)."
    return f"{{{{- /* {origin} */}}}}\n{whole}"


def _parameterised(text: str, labels: str) -> str:
    text = re.sub(r"namespace: gpu-scheduler-agent\b", f"namespace: {AGENT_NAMESPACE}", text)
    text = re.sub(r"namespace: gpu-scheduler(?![\w-])", f"namespace: {NAMESPACE}", text)
    for account, namespace in (("gpu-scheduler-agent", AGENT_NAMESPACE), ("gpu-scheduler", NAMESPACE)):
        text = text.replace(f"system:serviceaccount:{account}:", f"system:serviceaccount:{namespace}:")
    text = text.replace(f"labels: {{{LABEL}}}", f'labels: {{{LABEL}{{{{ include "{labels}" . }}}}}}')
    lines = "\\g<0>{{- with .Values.commonLabels }}{{ toYaml . | nindent 4 }}{{- end }}\n"
    return re.sub(rf"^  labels:\n    {re.escape(LABEL)}\n", lines, text, flags=re.M)


def _of_kinds(text: str, kinds: Sequence[str]) -> Iterator[str]:
    for document in re.split(r"^---\n", text, flags=re.M):
        if not kinds or any(re.search(rf"^kind: {kind}$", document, re.M) for kind in kinds):
            yield document


def _conditional(documents: Iterator[str], conditions: Mapping[str, str]) -> Iterator[str]:
    unused = dict(conditions)
    for document in documents:
        found = [text for text in conditions if f"{text}\n" in document.partition("spec:")[0]]
        for text in found:
            unused.pop(text, None)
            document = f"{{{{- if {conditions[text]} }}}}\n{document}{{{{- end }}}}\n"
        yield document
    if unused:
        raise ValueError(f"no document has {', '.join(unused)}")


def schema() -> str:
    """values.schema.json with the present schema of the extender's configuration.

    Definitions of the product begin with a capital; the others are written by hand. Every value is required:
    only a null in the user's values, which removes the default, can leave one out.
    """
    written: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
    own = {name: each for name, each in written["definitions"].items() if name[0].islower()}
    written["definitions"] = own | _configuration()
    _require(written, yaml.safe_load((CHART / "values.yaml").read_text()))
    return json.dumps(written, indent=2) + "\n"


def _configuration() -> dict[str, Any]:
    """The definitions of the extender's configuration, with the sections of features in their places."""
    features = feature_sections()
    (_, *references), definitions = msgspec.json.schema_components(
        [KernelConfiguration, *features], ref_template="#/definitions/{name}"
    )
    whole = definitions.pop(KernelConfiguration.__name__)
    whole |= {"title": Configuration.__name__, "description": Configuration.__doc__}
    for section, reference in zip(features, references, strict=True):
        *above, name = section.key.split(".")
        place = whole
        for part in above:
            place = definitions[place["properties"][part]["$ref"].rpartition("/")[2]]
        place["properties"][name] = reference
    return {"Configuration": whole, **definitions}


def _require(part: dict[str, Any], values: Mapping[str, Any]) -> None:
    part["required"] = list(values)
    for name, value in values.items():
        if "properties" in part["properties"][name]:
            _require(part["properties"][name], value)


def bounds() -> str:
    """The shortest and the longest value of each duration of the extender's configuration, for the
    templates."""
    comment = (
        "# Generated from the sections of the configuration: the shortest and the longest of each duration.\n"
    )
    listed = {key: list(map(duration_text, each)) for key, each in duration_bounds().items()}
    return comment + yaml.safe_dump(listed, sort_keys=False, default_flow_style=None)


def generated() -> dict[Path, str]:
    """The text of every generated file, by its path."""
    files = {CHART / target: (ROOT / source).read_text() for source, target in VERBATIM.items()}
    # A feature that is deleted takes its component along.
    copies = [each for each in COPIES if (ROOT / each.source).parent.exists()]
    files |= {CHART / "templates" / each.target: template(each) for each in copies}
    files[CHART / "values.schema.json"] = schema()
    files[CHART / "files" / "duration-bounds.yaml"] = bounds()
    return files


def main(arguments: Sequence[str]) -> int:
    """Write what has changed; with --check, only name it."""
    outdated = [
        (path, text) for path, text in generated().items() if not path.exists() or path.read_text() != text
    ]
    for path, text in outdated:
        print(path.relative_to(ROOT))
        if "--check" not in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return int(bool(outdated) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
