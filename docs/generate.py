"""Writes the parts of the documentation that follow from the code and from `benchmarks/results`, and
`config/default.yaml`, which has the settings of the kernel and of all features.

A page has such a part between `<!-- generated: NAME -->` and `<!-- end -->`, as lines of its own or within a
line; everything else in it is written by hand. `python -m docs.generate` renews all parts; with `--check` it
prints the differences and exits with 1 if there are any. Every part that can be generated has a place on a
page, so that a new command, for example, cannot be forgotten.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache, partial
from inspect import cleandoc
from itertools import pairwise
from os.path import relpath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import click
import yaml
from click.testing import CliRunner

from benchmarks import published
from scheduler_ext.core.filters import REASONS
from scheduler_ext.core.request.constraints import ANNOTATION_PREFIX, GpuConstraints
from scheduler_ext.feature import installed
from scheduler_ext.main import main as scheduler_ext
from scheduler_ext.wire import config
from tests.exposition import exposition
from tests.pages import is_of_a_missing_feature

ROOT = Path(__file__).resolve().parents[1]
CHART = ROOT / "manifests" / "charts" / "gpu-scheduler"
_PART = re.compile(r"<!-- generated: ([^>]+?) -->(.*?)<!-- end -->", re.DOTALL)

Part = Callable[[Path, str], str]
"""Text for a page, from its path and from what stands before the part."""


def pages(root: Path) -> list[Path]:
    """Every page of the documentation."""
    return [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]


# Tables


def rows_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose cells may have line ends and bars."""
    return published.table(
        head, *([re.sub(r"\s+", " ", cell).replace("|", r"\|").strip() for cell in row] for row in rows)
    )


def linked(page: Path, text: str) -> str:
    """Text with the pages that it names by their paths as links."""

    def link(found: re.Match[str]) -> str:
        path, anchor = found.groups()
        if is_of_a_missing_feature(ROOT / path):
            return found[0]
        headings = re.findall(r"^#+ (.+)$", (ROOT / path).read_text(), re.MULTILINE)
        title = next(each for each in headings if not anchor or _anchor(each) == anchor)
        return f"[{title}]({relpath(ROOT / path, page.parent)}{anchor})"

    return re.sub(r"\b(docs/[\w/-]+\.md)(#[\w-]+|)", link, text)


def _anchor(heading: str) -> str:
    return "#" + re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


# Reasons, metrics


def reasons(page: Path, before: str) -> str:
    rows = [(f"`{reason.text}`", reason.meaning, reason.remedy) for reason in REASONS]
    return rows_table(("reason", "what it means", "what to do"), rows)


# The beginnings of the names of each group of metrics, without gpu_extender_; the first group counts.
_METRICS = {
    "waiting pods": (
        *(
            "pending_pods",
            "waiting_pod",
            "queue_",
            "plan_age",
            "schedulable_",
            "autoscaler_blind",
            "nominations",
        ),
        *("gang_", "placeholders"),
    ),
    "GPUs": (
        *(
            "gpus",
            "device_memory",
            "device_utilization",
            "device_power",
            "device_temperature",
            "device_sm_clock",
        ),
        *("device_idle", "device_throttled", "device_xid", "fragmentation", "mig_", "node_", "namespace_"),
        *("reservations", "idle_pods", "gpu_out_of_memory"),
    ),
    "the cluster": (
        *("inventory_", "nodes_", "snapshot_", "forecast_", "report", "active", "ready", "watch_", "ledger_"),
        *("unplaced_", "bind", "advertise_", "device_taint", "events", "nudge", "reclaims", "agent_labels"),
        "startup_taints",
    ),
    "requests": ("",),
}


@cache
def _metrics() -> Mapping[str, list[tuple[str, str, str, str]]]:
    """The rows of each group."""
    groups: dict[str, list[tuple[str, str, str, str]]] = {group: [] for group in _METRICS}
    for family in sorted(exposition(), key=lambda family: family.name):
        short = family.name.removeprefix("gpu_extender_")
        group = next(group for group, begins in _METRICS.items() if short.startswith(begins))
        name = family.name + ("_total" if family.type == "counter" else "")
        names = dict.fromkeys(label for sample in family.samples for label in sample.labels if label != "le")
        groups[group].append(
            (f"`{name}`", family.type, ", ".join(f"`{label}`" for label in names), family.documentation)
        )
    return groups


def metrics(group: str, page: Path, before: str) -> str:
    rows = [(*row[:3], linked(page, row[3])) for row in _metrics()[group]]
    return rows_table(("metric", "type", "labels", "meaning"), rows)


# Settings, from YAML files with comments


class Setting(NamedTuple):
    """A key of a YAML file, with the comment above it."""

    path: str
    value: Any
    comment: str


@cache
def default_configuration() -> str:
    """The settings of the kernel, then those of each installed feature, or below a key that is there already.
    Blocks of a file are apart by an empty line."""
    modules = [config.__name__, *(feature.settings for feature in installed() if feature.settings)]
    blocks: dict[str, str] = {}
    for module in modules:
        file = Path(importlib.import_module(module).__file__ or "").with_suffix(".yaml")
        for block in file.read_text().strip().split("\n\n"):
            _, key, inner = re.split(r"^(\w+):", block, maxsplit=1, flags=re.MULTILINE)
            blocks[key] = blocks[key] + inner if key in blocks else block
    parts = "scheduler_ext/wire/config.yaml and the settings.yaml of features"
    return f"# Assembled by `make reference` from {parts}.\n" + "\n\n".join(blocks.values()) + "\n"


@cache
def settings(text: str) -> Sequence[Setting]:
    """All keys of a YAML text, in its order; those of a mapping without comments are its value."""
    values = yaml.safe_load(text)
    found: list[Setting] = []
    comment, above = "", dict[int, str]()
    for line in text.splitlines():
        key = re.match(r"( *)([\w-]+):", line)
        if line.lstrip().startswith("#"):
            comment += line.lstrip().removeprefix("#")
        elif key:
            depth, name = len(key[1]), key[2]
            above = {each: title for each, title in above.items() if each < depth} | {depth: name}
            value = values
            for part in above.values():
                value = value[part]
            if name not in ("apiVersion", "kind"):
                found.append(Setting(".".join(above.values()), value, comment.strip()))
            comment = ""
        elif not line.strip():
            comment = ""
    known = {each.path for each in found if each.comment}
    whole = {path for path in known if not any(other.startswith(f"{path}.") for other in known)}
    leaves = [each.path for each in found if not isinstance(each.value, dict)]
    silent = [each for each in leaves if not any(f"{each}.".startswith(f"{path}.") for path in whole)]
    if silent:
        raise SystemExit(f"no comment says what {', '.join(silent)} means")
    return [each for each in found if each.comment]


def setting_table(text: Callable[[], str], inside: str, page: Path, before: str) -> str:
    """The settings of a text in a section, or all others of it; a row for each section with a comment."""
    known = settings(text())
    rows = []
    for each in known:
        if each.path.startswith("score.weights.") != bool(inside):
            continue
        section = any(other.path.startswith(f"{each.path}.") for other in known)
        name = f"`{each.path.removeprefix(inside)}`"
        value = "" if section else _value(each.value)
        rows.append((f"**{name}**" if section else name, value, linked(page, each.comment)))
    return rows_table(("score" if inside else "setting", "default", "meaning"), rows)


def _value(value: Any) -> str:
    if isinstance(value, list) and value and not isinstance(value[0], dict):
        return ", ".join(_value(each) for each in value)
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    return f"`{text.strip().removesuffix('...').strip()}`".replace("'", '"')


# Annotations, from the texts below their declarations


def declared(module: str, *names: str) -> Mapping[str, str]:
    """The texts below names of a module, or of a class in it (`Class.`: all of its fields)."""
    source = importlib.import_module(module).__file__
    tree = ast.parse(Path(source or "").read_text())
    texts = {}
    for body in [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]:
        for node, after in pairwise(body):
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            if isinstance(target, ast.Name) and isinstance(after, ast.Expr):
                texts[target.id] = cleandoc(ast.literal_eval(after.value))
    missing = [name for name in names if name not in texts]
    if missing:
        raise SystemExit(f"{module}: nothing stands below {', '.join(missing)} about its meaning")
    return {name: texts[name] for name in names}


def wishes(page: Path, before: str) -> str:
    texts = declared(GpuConstraints.__module__, *(each.name for each in fields(GpuConstraints)))
    rows = [
        (f"`{ANNOTATION_PREFIX}{each.metadata['key']}`", linked(page, texts[each.name]))
        for each in fields(GpuConstraints)
    ]
    return rows_table(("annotation", "meaning"), rows)


def declared_annotations(declarations: Sequence[tuple[str, Sequence[str]]], page: Path, before: str) -> str:
    rows = []
    for module, names in declarations:
        for name, text in declared(module, *names).items():
            key = getattr(importlib.import_module(module), name)
            rows.append((f"`{key}CONTAINER`" if key.endswith("/") else f"`{key}`", linked(page, text)))
    return rows_table(("annotation", "meaning"), rows)


def opt_outs(page: Path, before: str) -> str:
    opt_outs = importlib.import_module("scheduler_ext.features.defrag.movable").OPT_OUTS
    return rows_table(
        ("annotation", "value"), [(f"`{name}`", f"`{value}`") for name, value in opt_outs.items()]
    )


# Commands


@cache
def commands() -> Mapping[str, click.Command]:
    """Every command by its words; not the groups."""

    def below(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
        if isinstance(command, click.Group):
            for name in command.commands:
                yield from below(command.commands[name], (*words, name))
        else:
            yield " ".join(words), command

    return dict(below(scheduler_ext, ()))


def _options(command: click.Command) -> Iterator[click.Option]:
    return (each for each in command.params if isinstance(each, click.Option) and not each.hidden)


@cache
def common_options() -> Mapping[str, str]:
    """The rows of options that five commands or more have with the same words."""
    rows = Counter(
        _option(name, option) for name, command in commands().items() for option in _options(command)
    )
    return {option: text for (option, text), count in rows.items() if count >= 5}


def _option(name: str, option: click.Option) -> tuple[str, str]:
    context = click.Context(commands()[name], info_name=name, show_default=True)
    metavar = "" if option.is_flag else f" {option.make_metavar(context)}"
    choices = isinstance(option.type, click.Choice)
    text = option.help or ""
    extra = option.get_help_extra(context)
    if option.required:
        text += " Required."
    if default := extra.get("default"):
        text += f" Default: {default[1:-1]}." if default.startswith("(") else f" Default: `{default}`."
    if bounds := extra.get("range"):
        text += f" `{bounds}`."
    if choices:
        metavar = f" {option.make_metavar(context).strip('[]')}"
    return f"`{', '.join(option.opts)}{metavar}`", _code(text)


_CODE = re.compile(r"(?<![\w-])(--?[a-z][a-z-]*|\$[A-Z_]+|~/[\w./]+\w|\{\S+\}|\w+(?:,\w+){3,}|<\(.*\))")


def _code(text: str) -> str:
    """A text with its options, variables, paths and lists as code."""
    parts = text.split("`")
    return "`".join(part if n % 2 else _CODE.sub(r"`\1`", part) for n, part in enumerate(parts))


def common(page: Path, before: str) -> str:
    return rows_table(("option", "meaning"), sorted(common_options().items()))


def command(name: str, page: Path, before: str) -> str:
    described = commands()[name]
    context = click.Context(described, info_name=f"scheduler-ext {name}")
    usage = " ".join([context.info_name or "", *described.collect_usage_pieces(context)])
    paragraphs = [" ".join(each.split()) for each in cleandoc(described.help or "").split("\n\n")]
    rows = [_option(name, option) for option in _options(described)]
    own = [row for row in rows if row not in common_options().items()]
    shared = [
        re.findall(r"`(.*?)[ `]", option)[0].rstrip(",") for option, _ in rows if option not in dict(own)
    ]
    parts = [f"`{usage}`", *map(_code, paragraphs)]
    if own:
        parts.append(rows_table(("option", "meaning"), own))
    if shared:
        parts.append(f"[Common options](#common-options): {', '.join(f'`{each}`' for each in shared)}.")
    return "\n\n".join(parts)


# Outputs, and other files


def images(page: Path, before: str) -> str:
    file = CHART / "files" / "kube-scheduler-versions.yaml"
    versions: Mapping[str, str] = yaml.safe_load(file.read_bytes())
    rows = [(minor, f"`{version}`") for minor, version in versions.items()]
    return rows_table(("control plane", "`registry.k8s.io/kube-scheduler`"), rows)


def explained(page: Path, before: str) -> str:
    """What `explain` prints, up to its table, for the last pod before this part, on the sample cluster and
    the nodes of the section."""
    section = re.split(r"^#{2,3} ", before, flags=re.MULTILINE)[-1]
    manifests = {
        yaml.safe_load(body)["kind"]: body
        for body in re.findall(r"^```yaml\n(.*?)^```$", section, re.M | re.S)
    }
    sample = (ROOT / "config" / "sample-inventory.yaml").read_text()
    with TemporaryDirectory() as folder:
        cluster = Path(folder) / "cluster.yaml"
        cluster.write_text("\n---\n".join(filter(None, (sample, manifests.get("Node")))))
        arguments = ["explain", "-f", "-", "--inventory", str(cluster)]
        result = CliRunner().invoke(scheduler_ext, arguments, input=manifests["Pod"])
    printed = result.output.splitlines()
    return "\n".join(["```", *printed[: printed.index("")], "```"])


# All parts


def _figure(render: Callable[[], str], page: Path, before: str) -> str:
    return render()


# The features that parts need, beside commands: without them, there is no such part.
_OF_FEATURES = {
    "annotations against moves": {"defrag"},
    "figure gangs over time": {"gangs", "sim"},
    "figure families": {"sim"},
    "figure the page": {"page"},
}
_GANGS = "scheduler_ext.wire.gangs"
_ALL: Mapping[str, Part] = {
    "reasons": reasons,
    **{f"metrics of {group}": partial(metrics, group) for group in _METRICS},
    "settings": partial(setting_table, default_configuration, ""),
    "scores": partial(setting_table, default_configuration, "score.weights."),
    "values": partial(setting_table, (CHART / "values.yaml").read_text, ""),
    "annotations of users": wishes,
    "annotations of gangs": partial(
        declared_annotations,
        [
            (
                _GANGS,
                (
                    *("GANG", "SIZE", "REQUIRED_TOPOLOGY", "PREFERRED_TOPOLOGY", "DEADLINE", "ON_DEADLINE"),
                    "MAX_DURATION",
                ),
            )
        ],
    ),
    "annotations against moves": opt_outs,
    "annotations of the extender": partial(
        declared_annotations,
        [
            ("scheduler_ext.wire.pod.cached_pod", ("DEVICES_PREFIX",)),
            ("scheduler_ext.wire.binding", ("ASSIGNED_ANNOTATION",)),
            ("scheduler_ext.wire.pod_facts", ("RECLAIM_AT_ANNOTATION",)),
            ("scheduler_ext.wire.planned_annotation", ("PLANNED_ANNOTATION", "ONLY_NODE")),
        ],
    ),
    "annotations of nodes": partial(
        declared_annotations, [("scheduler_ext.cluster.events.event_recorder", ("NUDGE_ANNOTATION",))]
    ),
    "annotations of GPUNodes": partial(
        declared_annotations,
        [
            ("scheduler_ext.wire.report", ("CORDONED_ANNOTATION",)),
            ("scheduler_ext.wire.held_annotation", ("HELD_ANNOTATION",)),
            ("scheduler_ext.agent.gpu_health", ("REPAIRED_ANNOTATION",)),
        ],
    ),
    "common options": common,
    **{f"command {name}": partial(command, name) for name in commands()},
    "explained": explained,
    "images of kube-scheduler": images,
    **{f"figure {name}": partial(_figure, render) for name, render in published.FIGURES.items()},
}
_INSTALLED = {feature.name for feature in installed()}
PARTS: Mapping[str, Part] = {
    name: part for name, part in _ALL.items() if _OF_FEATURES.get(name, set()) <= _INSTALLED
}
FILES: Mapping[str, Callable[[], str]] = {"config/default.yaml": default_configuration}


def main(
    arguments: Sequence[str],
    root: Path = ROOT,
    parts: Mapping[str, Part] = PARTS,
    files: Mapping[str, Callable[[], str]] = FILES,
) -> int:
    """The exit status."""
    used = set[str]()

    def renewed(page: Path, text: str) -> str:
        def renew(found: re.Match[str]) -> str:
            name, old = found.groups()
            if name in parts:
                new = parts[name](page, text[: found.start()])
            # Of the installed commands none is left out: each has to have a place.
            elif name in _OF_FEATURES or name.startswith("command "):
                new = "This is not installed."
            else:
                raise SystemExit(f"{page.relative_to(root)}: no part is named {name!r}")
            used.add(name)
            return f"<!-- generated: {name} -->" + (f"\n\n{new}\n\n" if "\n" in old else new) + "<!-- end -->"

        return _PART.sub(renew, text)

    written = {root / name: text() for name, text in files.items()}
    texts = {path: path.read_text() for path in (*written, *pages(root))}
    changed = {
        path: new
        for path, old in texts.items()
        if (new := written[path] if path in written else renewed(path, old)) != old
    }
    if parts.keys() - used:
        raise SystemExit(f"no page has these parts: {', '.join(sorted(parts.keys() - used))}")
    for path, new in changed.items():
        if "--check" in arguments:
            before, after = texts[path].splitlines(), new.splitlines()
            name = str(path.relative_to(root))
            print(*difflib.unified_diff(before, after, name, "generated", lineterm=""), sep="\n")
        else:
            path.write_text(new)
    if changed and "--check" in arguments:
        print("Run `make reference`.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
