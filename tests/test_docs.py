"""The documentation agrees with the code: names, defaults, links."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from prometheus_client.metrics_core import Metric

import scheduler_ext.sim.mig.mig_policies
import scheduler_ext.sim.policies
from scheduler_ext.agent.gpu_health import REPAIRED_ANNOTATION
from scheduler_ext.cli import main
from scheduler_ext.cluster.events.event_recorder import NUDGE_ANNOTATION
from scheduler_ext.core.cycle.cycle import DECISIVE, DECISIVE_SCORES
from scheduler_ext.core.filters import REASONS
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.request.resource_names import DEFAULT_SHARE, DEFAULT_WHOLE
from scheduler_ext.core.request.wishes import ANNOTATION_PREFIX, WISHES
from scheduler_ext.core.scores import DEFAULT_WEIGHTS
from scheduler_ext.defrag.movable import OPT_OUTS
from scheduler_ext.explain.recorded import recorded_values
from scheduler_ext.extender.answer import Bound, Candidate, Term
from scheduler_ext.extender.extender import Extender
from scheduler_ext.extender.record import Recorded
from scheduler_ext.sources.file_source import InventorySource
from scheduler_ext.views.ledger_dump import ledger_dump
from scheduler_ext.wire import gpunode, kube
from scheduler_ext.wire.binding import device_annotations
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.gang_pod import ONLY_NODE
from scheduler_ext.wire.gangs import (
    DEADLINE,
    GANG,
    MAX_DURATION,
    ON_DEADLINE,
    PREFERRED_TOPOLOGY,
    REQUIRED_TOPOLOGY,
    SIZE,
    START_BY,
)
from scheduler_ext.wire.held_annotation import HELD_ANNOTATION
from scheduler_ext.wire.node_info import SHARE_NODE_LABEL
from scheduler_ext.wire.planned_annotation import PLANNED_ANNOTATION
from scheduler_ext.wire.pod.cached_pod import DEVICES_PREFIX
from scheduler_ext.wire.pod.pod_request import pod_request
from scheduler_ext.wire.pod_facts import RECLAIM_AT_ANNOTATION
from scheduler_ext.wire.report import CORDONED_ANNOTATION
from tests.exposition import exposition
from tests.pages import FENCE, PAGES, ROOT, SAMPLE, blocks, first_cells, page, rows, section

# Reasons


def test_reasons_lists_exactly_the_reasons_with_their_meaning_and_remedy() -> None:
    assert [[cell.strip("`") for cell in row[:1]] + row[1:] for row in rows(page("reasons"))] == [
        [reason.text, reason.meaning, reason.remedy] for reason in REASONS
    ]


# Configuration


def shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(f"`{item}`" for item in value)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def knobs() -> Iterator[tuple[str, object]]:
    settings: dict[str, Any] = msgspec.to_builtins(Configuration())
    others = ("apiVersion", "kind", "score.weights", "values")
    yield from ((name, value) for name, value in parts(settings) if name not in others)


def parts(settings: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    """The settings of sections, and of the sections in them."""
    for name, value in settings.items():
        if isinstance(value, dict) and value:
            yield from parts(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def test_configuration_names_every_knob_with_its_default() -> None:
    table = {row[0].strip("`"): row[1] for row in rows(page("configuration").split("## Scores")[0])}
    assert table.pop("score.weights.NAME") == "see below"
    assert table == {name: shown(value) for name, value in knobs()}


def test_configuration_names_every_score_with_its_weight() -> None:
    table = {row[0].strip("`"): row[1] for row in rows(section(page("configuration"), "## Scores"))}
    part = DECISIVE / (1 + DECISIVE)
    fixed = {score.name: f"{100 * part:.0f} % of the total, fixed" for score in DECISIVE_SCORES}
    assert table == {name: shown(weight) for name, weight in DEFAULT_WEIGHTS.items()} | fixed


# Metrics


@pytest.fixture(scope="module")
def scraped() -> list[Metric]:
    """A scrape after one filter call, with all possible labels."""
    return exposition()


def exposed_name(family: Metric) -> str:
    return family.name + ("_total" if family.type == "counter" else "")


def told_metrics() -> list[list[str]]:
    return [row for row in rows(page("metrics")) if row[0].startswith("`gpu_extender_")]


def test_metrics_names_exactly_what_a_scrape_shows(scraped: list[Metric]) -> None:
    table = {row[0].strip("`"): row[1] for row in told_metrics()}
    assert table == {exposed_name(family): family.type for family in scraped}


def test_metrics_names_every_label(scraped: list[Metric]) -> None:
    table = {row[0].strip("`"): set(re.findall(r"`(\w+)`", row[2])) for row in told_metrics()}
    assert table == {
        exposed_name(family): {label for sample in family.samples for label in sample.labels} - {"le"}
        for family in scraped
    }


# Annotations


def test_annotations_names_every_annotation_of_users() -> None:
    told = first_cells(section(page("annotations"), "## On pods, set by users"))
    assert told == [ANNOTATION_PREFIX + key for key in WISHES]


def test_annotations_names_every_annotation_of_gangs() -> None:
    told = first_cells(section(page("annotations"), "## On pods, for gangs"))
    assert told == [
        GANG,
        SIZE,
        REQUIRED_TOPOLOGY,
        PREFERRED_TOPOLOGY,
        DEADLINE,
        ON_DEADLINE,
        MAX_DURATION,
    ]


def test_annotations_names_every_annotation_of_the_extender() -> None:
    told = first_cells(section(page("annotations"), "## On pods, set by the extender"))
    by_policy = "nvidia.cdi.k8s.io/container."
    assert told == [
        DEVICES_PREFIX + "CONTAINER",
        ANNOTATION_PREFIX + "assigned",
        RECLAIM_AT_ANNOTATION,
        PLANNED_ANNOTATION,
        START_BY,
        ONLY_NODE,
        by_policy + "CONTAINER",
    ]
    assert by_policy in (ROOT / "manifests/components/shares-cdi/binding.yaml").read_text()


def test_the_reference_names_the_annotations_of_nodes_and_gpunodes() -> None:
    on_nodes = first_cells(section(page("annotations"), "## On nodes"))
    assert on_nodes == [f"{SHARE_NODE_LABEL}=memory", NUDGE_ANNOTATION]
    assert first_cells(section(page("annotations"), "## On GPUNodes")) == [
        CORDONED_ANNOTATION,
        HELD_ANNOTATION,
        REPAIRED_ANNOTATION,
    ]


def test_the_reference_names_the_annotations_against_moves() -> None:
    told = {
        row[0].strip("`"): row[1].strip("`")
        for row in rows(section(page("annotations"), "## On pods, against moves"))
    }
    assert told == OPT_OUTS


def test_annotations_names_every_resource() -> None:
    resources = section(page("annotations"), "## Resources")
    assert [name for name in (*DEFAULT_WHOLE, DEFAULT_SHARE) if f"`{name}`" not in resources] == []


def test_the_readme_names_the_usual_annotations_of_users_in_the_same_order() -> None:
    named = first_cells(section((ROOT / "README.md").read_text(), "## Use it from a pod"))
    assert named == [key for key in WISHES if key in named]
    assert len(named) >= 5


@pytest.mark.parametrize("key", [pytest.param(key, id=f"{key}: the example is legal") for key in WISHES])
def test_the_examples_of_annotations_are_legal(key: str) -> None:
    table = {row[0].strip("`"): row[1] for row in rows(page("annotations"))}
    examples = re.findall(r"`([^`]+)`", table[ANNOTATION_PREFIX + key])
    assert examples
    for example in examples:
        # Raises for an illegal one.
        assert WISHES[key][1](example.strip('"')) is not None


# Command line


def commands() -> dict[str, click.Command]:
    return dict(main.commands)


def test_cli_has_a_section_for_every_command() -> None:
    assert sorted(re.findall(r"^## (.+)$", page("cli"), re.MULTILINE)) == sorted(commands())


def described() -> dict[str, click.Command]:
    """Every command by its heading; a group's have one of their own below it."""
    headings: dict[str, click.Command] = {}
    for name, command in commands().items():
        if isinstance(command, click.Group):
            headings |= {f"### {name} {each}": command.commands[each] for each in command.commands}
        else:
            headings[f"## {name}"] = command
    return headings


@pytest.mark.parametrize("heading", sorted(described()))
def test_cli_names_every_option_of_a_command_and_no_other(heading: str) -> None:
    options = {
        option
        for parameter in described()[heading].params
        if isinstance(parameter, click.Option) and not parameter.hidden
        for option in parameter.opts
    }
    told = section(page("cli"), heading)
    assert {
        option for cell in first_cells(told) for option in re.findall(r"-{1,2}[a-zA-Z-]+", cell)
    } == options


@pytest.mark.parametrize(
    ("heading", "policies"),
    [
        ("### simulate trace", list(scheduler_ext.sim.policies.POLICIES)),
        ("### simulate mig", list(scheduler_ext.sim.mig.mig_policies.MIG_POLICIES)),
    ],
)
def test_cli_names_every_policy_of_a_simulation(heading: str, policies: Sequence[str]) -> None:
    (row,) = (row for row in rows(section(page("cli"), heading)) if row[0].startswith("`--policy"))
    assert sorted(re.findall(r"`([a-z-]+)`", row[2])) == list(policies)


# GPUNode


def status_fields(kind: type[msgspec.Struct]) -> set[str]:
    """Every field of the status and of its parts, as written in a file."""
    names = set()
    for field in msgspec.structs.fields(kind):
        names.add(field.encode_name)
        for part in msgspec.inspect.multi_type_info([field.type]):
            names |= set().union(*map(status_fields, structs_of(part)))
    return names


def structs_of(part: msgspec.inspect.Type) -> list[type[msgspec.Struct]]:
    if isinstance(part, msgspec.inspect.UnionType):
        return [struct for option in part.types for struct in structs_of(option)]
    if isinstance(part, msgspec.inspect.ListType):
        return structs_of(part.item_type)
    return [part.cls] if isinstance(part, msgspec.inspect.StructType) else []


def test_gpunode_names_every_field() -> None:
    told = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`]+`", FENCE.sub("", page("gpunode"))))))
    assert status_fields(gpunode.GpuNodeStatus) - told == set()


# Ledger


def keys(value: object) -> set[str]:
    """Every field name in a JSON value; maps keyed by a node or a GPU are named by their fields alone."""
    if isinstance(value, list):
        return set().union(*map(keys, value))
    if not isinstance(value, dict):
        return set()
    named = {name for name in value if name not in ("nodes", "devices")}
    return named.union(*(keys(part) for name, part in value.items() if name in named)).union(
        *(keys(part) for name in value.keys() - named for part in value[name].values())
    )


def test_wire_names_every_field_of_the_ledger() -> None:
    config = Configuration()
    source = InventorySource(SAMPLE, Extender(config), config.resource_names())
    source.load()
    shown = section(page("wire"), "## `GET /debug/ledger`")
    (example,) = blocks(shown, "json")
    dumped = keys(ledger_dump(source.snapshot, config.resource_names()))
    assert keys(msgspec.json.decode(example)) == dumped
    told = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`]+`", FENCE.sub("", shown)))))
    assert dumped - told == set()


def test_events_names_every_reason() -> None:
    source = "".join(path.read_text() for path in (ROOT / "scheduler_ext" / "cluster").rglob("*.py"))
    reasons = set(re.findall(r'"((?:GPU|ShareWithout)[A-Z]\w+)"', source)) - {"GPUNode", "GPUReservation"}
    assert {row[0].strip("`") for row in rows(page("events"))} == reasons
    assert len(reasons) == 20


def test_inspection_names_every_recorded_field() -> None:
    shown = page("inspection")
    names = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`]+`", FENCE.sub("", shown)))))
    term = Term("t", 0.5, 0.5, 0.5)
    candidate = Candidate("n", 0.5, (term,), 1)
    bound = Bound(0.0, "n", "bound", "", {})
    record = Recorded("u", "ns", "p", b"", 0.0, candidates=(candidate,), bound=bound)
    told = recorded_values(record)
    best = told["best"]
    assert {*told, *best, *best["terms"][0], *told["bound"]} - names == set()


def test_annotations_show_the_assigned_gpus() -> None:
    (example,) = blocks(page("annotations"), "json")
    pod = """{"metadata": {"name": "p"}, "spec": {"containers": [
      {"name": "main", "resources": {"limits": {"gpu.scheduler-ext.io/memory-mib": "16384"}}},
      {"name": "rest", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}"""
    resources = Configuration().resource_names()
    request = pod_request(msgspec.json.decode(pod, type=kube.Pod), resources)
    assert isinstance(request, GpuRequest)
    told = device_annotations("share-l4-01", request, {"main": ("GPU-1",)}, resources)
    assert msgspec.json.decode(told[ANNOTATION_PREFIX + "assigned"]) == msgspec.json.decode(example)


# Links


def links(path: Path) -> list[str]:
    prose = FENCE.sub("", path.read_text())
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", prose) if "://" not in target]


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_resolve(path: Path) -> None:
    for link in links(path):
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        assert file.exists(), link
        assert not anchor or anchor in anchors(file), link


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_prose_is_wrapped(path: Path) -> None:
    """Commands, output and tables are as long as they have to be."""
    lines = FENCE.sub("", path.read_text()).splitlines()
    assert [line for line in lines if len(line) > 136 and not line.startswith("|")] == []


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs" / "decisions").glob("0*.md")), ids=lambda path: path.name[:4]
)
def test_decisions_have_one_form(path: Path) -> None:
    text = path.read_text()
    assert re.match(r"# \d{4} [^\n]+\n\nDate: \d{4}-\d\d-\d\d\n\nStatus: [^\n]+\n\n## Context\n", text)
    assert re.findall("^## (.*)", text, re.MULTILINE) == [
        "Context",
        "Decision",
        "Alternatives",
        "Consequences",
    ]


def test_the_index_lists_every_decision() -> None:
    folder = ROOT / "docs" / "decisions"
    assert sorted(links(folder / "README.md")) == sorted(path.name for path in folder.glob("0*.md"))


def test_every_page_is_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        path = waiting.pop()
        if path.suffix != ".md" or path in reached:
            continue
        reached.add(path)
        waiting += [
            (path.parent / link.partition("#")[0]).resolve() for link in links(path) if link[0] != "#"
        ]
    assert {path.relative_to(ROOT) for path in PAGES} - {path.relative_to(ROOT) for path in reached} == set()
