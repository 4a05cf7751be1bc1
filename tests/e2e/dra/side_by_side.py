"""Generated clusters of a few nodes each, and a pod for each, to compare schedulers with."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.e2e.cluster.api import Json

PLUGIN, DRA, BOTH, MIG = "plugin", "dra", "both", "mig"
MODELS = ("H100-80GB", "A100-80GB", "T4")
GPU_CLASS, MIG_CLASS = "gpu.nvidia.com", "mig.nvidia.com"
NIC_CLASS = NIC_DRIVER = "nic.example.com"
ADMIN = "admin access to a GPU"
WHOLE = "nvidia.com/gpu"
_IS_MODEL = "device.attributes['gpu.nvidia.com'].productName.contains('{}')"
_IS_LARGE = "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0"


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU; `sick`: the agent reports it unhealthy, `cordoned`: an operator closed it, `tainted`: the driver
    did. A driver that reports no health publishes sick GPUs as others."""

    sick: bool = False
    cordoned: bool = False
    tainted: bool = False


@dataclass(frozen=True, slots=True)
class NodeCase:
    """A node: who hands out its GPUs, and whether an agent reports them. `other_model` is that of every
    second GPU. `half`: its pool is incomplete. `shared`: claims may have parts of its GPUs. `nic`: DRA hands
    out a network device, too."""

    kind: str
    model: str
    gpus: tuple[Gpu, ...]
    agent: bool
    half: bool = False
    other_model: str | None = None
    shared: bool = False
    nic: bool = False

    def model_of(self, index: int) -> str:
        return self.other_model if self.other_model is not None and index % 2 else self.model


@dataclass(frozen=True, slots=True)
class Case:
    """Nodes that only this case's pods may use; a pod that runs before; and the pod in question. `asks` is in
    words; the pod has `limits`, or the requests of a claim."""

    nodes: tuple[NodeCase, ...]
    holder: str | None
    asks: str
    limits: Json = field(default_factory=dict)
    requests: tuple[Json, ...] = ()
    model: str | None = None

    @property
    def has(self) -> frozenset[str]:
        """The properties that may explain a refusal."""
        found = {node.kind for node in self.nodes}
        gpus = [gpu for node in self.nodes if node.agent for gpu in node.gpus]
        if any(gpu.sick or gpu.cordoned for gpu in gpus):
            found.add("sick or cordoned GPUs")
        if self.model is not None:
            found.add("a wish for a model")
        return frozenset(found)


def cases(seed: int, count: int) -> list[Case]:
    """So many generated cases, the same for the same seed."""
    rng = random.Random(seed)
    return [_case(rng) for _ in range(count)]


def _case(rng: random.Random) -> Case:
    nodes = tuple(_node(rng) for _ in range(rng.choice((1, 1, 2, 3))))
    asks, limits, requests = _ask(rng)
    return Case(
        nodes,
        holder=rng.choice((None, None, "plugin or class", "claim")),
        asks=asks,
        limits=limits,
        requests=requests,
        model=rng.choice(MODELS) if rng.random() < 0.15 else None,
    )


def _node(rng: random.Random) -> NodeCase:
    kind = rng.choice((PLUGIN, DRA, DRA, BOTH, MIG))
    gpus = tuple(
        Gpu(
            sick=rng.random() < 0.1,
            cordoned=rng.random() < 0.07,
            tainted=kind != PLUGIN and rng.random() < 0.08,
        )
        for _ in range(rng.choice((1, 2, 4)))
    )
    # Where a device plugin hands out GPUs, an agent reports them, else their state is not known.
    agent = kind in (PLUGIN, BOTH) or rng.random() < 0.5
    return NodeCase(
        kind,
        rng.choice(MODELS),
        gpus,
        agent,
        half=kind == DRA and rng.random() < 0.1,
        other_model=rng.choice(MODELS) if kind != MIG and rng.random() < 0.2 else None,
        shared=kind == DRA and rng.random() < 0.3,
        nic=rng.random() < 0.4,
    )


_Ask = tuple[str, Json, tuple[Json, ...]]


def _ask(rng: random.Random) -> _Ask:
    """In words, the limits of the container, and the requests of the claim."""
    count = rng.choice((1, 1, 2, 4))
    model = rng.choice(("H100", "A100", "T4"))
    implicit = f"deviceclass.resource.kubernetes.io/{GPU_CLASS}"
    by_resource: _Ask = (f"{count} of {WHOLE}", {WHOLE: str(count)}, ())
    by_class: _Ask = (f"{count} of {implicit}", {implicit: str(count)}, ())
    by_claim = {
        f"{count} of the class by claim": _exactly(GPU_CLASS, count=count),
        f"a claim for an {model}": _exactly(GPU_CLASS, _IS_MODEL.format(model)),
        "a claim for 40 GiB": _exactly(GPU_CLASS, _IS_LARGE, count=count),
        "a MIG instance by claim": _exactly(MIG_CLASS),
        "all GPUs by claim": _exactly(GPU_CLASS, allocationMode="All"),
        "10 GiB of a GPU by claim": _exactly(GPU_CLASS, capacity={"requests": {"memory": "10Gi"}}),
        ADMIN: _exactly(GPU_CLASS, adminAccess=True),
        "the first available of three": _first_available(
            _exactly(GPU_CLASS, _IS_LARGE, name="large", count=count),
            _exactly(MIG_CLASS, name="slice"),
            _exactly(GPU_CLASS, name="any"),
        ),
    }
    with_nic = (_exactly(GPU_CLASS), _exactly(NIC_CLASS, name="nic"))
    return rng.choice(
        [
            by_resource,
            by_resource,
            by_class,
            *((words, {}, (request,)) for words, request in by_claim.items()),
            ("a GPU and a network device", {}, with_nic),
        ]
    )


def _exactly(device_class: str, *selectors: str, name: str = "gpu", **fields: object) -> Json:
    found: Json = {"deviceClassName": device_class} | fields
    if selectors:
        found["selectors"] = [{"cel": {"expression": each}} for each in selectors]
    return {"name": name, "exactly": found}


def _first_available(*wanted: Json) -> Json:
    alternatives = [{"name": each["name"], **each["exactly"]} for each in wanted]
    return {"name": "gpu", "firstAvailable": alternatives}
