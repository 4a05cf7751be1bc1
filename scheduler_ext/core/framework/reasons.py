"""The closed set of reasons for refusing a node: constants without numbers or names. kube-scheduler groups
nodes by identical text, and a text that varies between attempts wakes the pod again (measured: over a
thousand filter calls in ten seconds for one pod)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a node is refused: kube-scheduler's text, its meaning, and the remedy."""

    text: str
    meaning: str
    remedy: str


INVALID_REQUEST = Reason(
    "pod's GPU request is invalid",
    "A quantity or annotation of the pod cannot be read, is absurd, or contradicts another.",
    "Run `scheduler-ext explain -f pod.yaml`: it names the field and the fix.",
)
