"""Node affinity, taints and tolerations, as kube-scheduler's plugins compare them. Selectors follow
k8s.io/component-helpers/scheduling/corev1/nodeaffinity and k8s.io/apimachinery/pkg/labels: a malformed term
matches no node instead of failing the pod."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

_LABEL_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,64}")  # a label value has at most 63 characters
_CANONICAL: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
# PreferNoSchedule only lowers a node's score.
_SCHEDULING_EFFECTS: Final = frozenset({"NoSchedule", "NoExecute"})


def parse_int64(text: str) -> int | None:
    """Read a signed 64-bit decimal as Go's strconv.ParseInt does; None if that would fail."""
    if _DECIMAL.fullmatch(text) is None:
        return None
    return number if -(2**63) <= (number := int(text)) < 2**63 else None


def parse_canonical_int64(text: str) -> int | None:
    """Read a signed 64-bit decimal without plus sign or leading zeros; None for any other text. Tolerations
    compare only this form (k8s.io/apimachinery/pkg/api/validate/content, IsDecimalInteger)."""
    return parse_int64(text) if _CANONICAL.fullmatch(text) else None


@dataclass(frozen=True, slots=True)
class Requirement:
    """One matchExpressions or matchFields entry: a key, an operator, and the operator's values."""

    key: str
    operator: str
    values: tuple[str, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels meets this matchExpressions entry. An absent label meets NotIn and
        DoesNotExist only. Gt and Lt compare integers. No node meets a malformed requirement."""
        if not all(_LABEL_VALUE.fullmatch(value) for value in self.values):
            return False
        value = labels.get(self.key)
        match self.operator, self.values:
            case "DoesNotExist", ():
                return value is None
            case "Exists", ():
                return value is not None
            case "NotIn", (_, *_):
                return value not in self.values
            case "In", (_, *_):
                return value in self.values
            case (("Gt" | "Lt"), (text,)):
                found, bound = parse_int64(value or ""), parse_int64(text)
                if found is None or bound is None:
                    return False
                return found > bound if self.operator == "Gt" else found < bound
            case _:
                return False

    def matches_field(self, fields: Mapping[str, str]) -> bool:
        """Whether a node with these fields (only metadata.name exists) meets this matchFields entry. Fields
        know In and NotIn with exactly one value; an unknown field reads as an empty string."""
        if len(self.values) != 1:
            return False
        equal = fields.get(self.key, "") == self.values[0]
        return (self.operator == "In" and equal) or (self.operator == "NotIn" and not equal)

    def __str__(self) -> str:
        values = f" [{', '.join(self.values)}]" if self.values else ""
        return f"{self.key} {self.operator}{values}"


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """One nodeSelectorTerms entry: every expression and every field must be met."""

    expressions: tuple[Requirement, ...]
    fields: tuple[Requirement, ...]

    @classmethod
    def of_node(cls, name: str) -> "NodeSelectorTerm":
        """The term that one node meets."""
        return cls((), (Requirement("metadata.name", "In", (name,)),))

    def matches(self, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
        """Whether a node with these labels and fields meets this term; an empty term is never met."""
        return (
            bool(self.expressions or self.fields)
            and all(requirement.matches(labels) for requirement in self.expressions)
            and all(requirement.matches_field(fields) for requirement in self.fields)
        )

    def __str__(self) -> str:
        return " and ".join(str(requirement) for requirement in (*self.expressions, *self.fields))


@dataclass(frozen=True, slots=True)
class PreferredTerm:
    """One entry of preferred node affinity: a term, and its weight (1 to 100)."""

    weight: int
    term: NodeSelectorTerm


def preference_of(terms: Iterable[PreferredTerm], name: str, labels: Mapping[str, str]) -> int:
    """The sum of the weights of the terms that a node with this name and these labels meets, which
    kube-scheduler's NodeAffinity scores before it normalizes the sums of all nodes."""
    fields = {"metadata.name": name}
    return sum(each.weight for each in terms if each.term.matches(labels, fields))


@dataclass(frozen=True, slots=True)
class Taint:
    """One taint of a node: what keeps pods away unless they tolerate it."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Toleration:
    """One toleration of a pod; an empty string stands for a missing field. tolerationSeconds is left out,
    because it decides when a running pod is evicted, never where a pod may go."""

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: Taint) -> bool:
        """Whether this toleration alone lets a pod onto a node with that taint. An empty effect or key means
        every one, an empty operator Equal. Lt and Gt (a feature gate of kube-apiserver) compare integers."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        if self.operator == "Exists":
            return True
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        ours, theirs = parse_canonical_int64(self.value), parse_canonical_int64(taint.value)
        if ours is None or theirs is None:
            return False
        return (self.operator == "Lt" and theirs < ours) or (self.operator == "Gt" and theirs > ours)


def first_untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """Return the first taint that keeps this pod away, or None when every such taint is tolerated."""
    tolerations = tuple(tolerations)
    strict = (taint for taint in taints if taint.effect in _SCHEDULING_EFFECTS)
    return next((taint for taint in strict if not any(each.tolerates(taint) for each in tolerations)), None)
