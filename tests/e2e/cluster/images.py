"""The program for each container image, and its adaptation for running outside a container.

A container finds the API server and its token at fixed places. A process here gets a kubeconfig instead, and
binds to loopback; everything else follows its manifest.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.cluster.api import Json
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.features import STOCK, Features
from tests.e2e.cluster.ports import LOOPBACK, Ports

TOKEN_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount"
OURS = ("-m", "scheduler_ext")
_SCHEDULER_PORT = 10259


@dataclass(frozen=True, slots=True)
class Image:
    """`entrypoint` precedes a container's args if it has no command; `adapt` adds further arguments.

    `programs` are those that a command may name, with their paths here. `server` is the URL of the API server
    for clients inside the cluster; None: the server's own. `variables` are the environment that an image
    itself sets.
    """

    entrypoint: Sequence[str | Path]
    adapt: Callable[[Ports, Path | None], Sequence[str]]
    server: str | None = None
    programs: Mapping[str, str | Path] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)

    def command(self, container: Json) -> list[str | Path]:
        """The entrypoint, or the container's own command."""
        name, *arguments = container.get("command", ()) or ("",)
        return [self.programs[name], *arguments] if name else [*self.entrypoint]


def image_name(image: str) -> str:
    """The name without registry and tag: kube-scheduler of registry.example/kube-scheduler:v1."""
    return _with_tag(image).partition(":")[0]


def find_image(images: Mapping[str, Image], image: str) -> Image | None:
    """The image of that name and tag; otherwise of that name with any tag; None if there is neither."""
    return images.get(_with_tag(image)) or images.get(image_name(image))


def _with_tag(image: str) -> str:
    return image.rpartition("/")[2].partition("@")[0]


def product_images(
    binaries: Binaries,
    ours: Sequence[str | Path] = OURS,
    server: str | None = None,
    features: Features = STOCK,
    releases: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, Image]:
    """The two images of the manifests.

    `ours` is what Python runs for this project's image; `server` is the address of the API server for it;
    `features` are those of kube-scheduler; `releases` are the environments of other releases of this
    project's image, by tag.
    """

    def scheduler(ports: Ports, kubeconfig: Path | None) -> Sequence[str]:
        return (
            f"--bind-address={LOOPBACK}",
            f"--secure-port={ports.local(_SCHEDULER_PORT)}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            *features.flags(),
        )

    def release(variables: Mapping[str, str]) -> Image:
        return Image(
            (sys.executable, *ours),
            lambda ports, kubeconfig: (),
            server,
            {"python3": sys.executable},
            variables,
        )

    return {
        "kube-scheduler": Image((), scheduler, programs={"kube-scheduler": binaries.kube_scheduler}),
        "scheduler-ext": release({}),
        **{f"scheduler-ext:{tag}": release(variables) for tag, variables in (releases or {}).items()},
    }


def outside_a_container(text: str, kubeconfig: Path | None) -> str:
    """A configuration file with the API server's address, for a kube-scheduler that cannot discover it."""
    if "kind: KubeSchedulerConfiguration" not in text or kubeconfig is None:
        return text
    return f"{text}\nclientConnection: {{kubeconfig: {kubeconfig}}}\n"
