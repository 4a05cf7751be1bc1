"""The Helm chart repeats other files exactly; tests/e2e/chart renders it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import yaml

from scheduler_ext import __version__
from tests.e2e.cluster.binaries import kubernetes_version, minors, release_number
from tests.manifests.objects import Json
from tests.manifests.shipped import REPOSITORY

CHARTS = REPOSITORY / "manifests" / "charts"
CHART = CHARTS / "gpu-scheduler"


def of_chart(name: str) -> Json:
    found: Json = yaml.safe_load((CHART / name).read_bytes())
    return found


def test_generated_files_are_current() -> None:
    check = [sys.executable, str(CHARTS / "generate.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.stdout == "", "run make chart"
    assert done.returncode == 0, done.stderr


def test_the_chart_has_the_release_of_the_product() -> None:
    described = of_chart("Chart.yaml")
    assert (described["version"], described["appVersion"]) == (__version__, __version__)


# kube-scheduler's images


def known() -> dict[str, str]:
    return dict(of_chart("files/kube-scheduler-versions.yaml"))


def test_every_minor_release_has_an_image_of_that_release() -> None:
    versions = known()
    assert list(versions) == sorted(versions, key=release_number)
    first, last = (release_number(each)[1] for each in (min(versions), max(versions)))
    assert list(versions) == [f"1.{minor}" for minor in range(first, last + 1)], "none is left out"
    assert {minor: version.rpartition(".")[0] for minor, version in versions.items()} == {
        minor: f"v{minor}" for minor in versions
    }
    assert of_chart("Chart.yaml")["kubeVersion"] == f">={next(iter(versions))}.0-0"


def test_the_images_are_those_of_the_tests() -> None:
    assert {minor: known()[minor] for minor in minors()} == {
        minor: kubernetes_version(minor) for minor in minors()
    }


# Values


def leaves(values: Json, stop: set[str], path: str = "") -> Iterator[str]:
    """The paths of the values; a mapping in `stop` is one value."""
    for key, value in values.items():
        here = f"{path}{key}"
        if isinstance(value, dict) and here not in stop:
            yield from leaves(value, stop, f"{here}.")
        else:
            yield here


def test_the_schema_has_every_value_and_no_other() -> None:
    known = set(properties(json.loads((CHART / "values.schema.json").read_text())))
    assert {*leaves(of_chart("values.yaml"), known), "global"} == known


def properties(schema: Json, path: str = "") -> Iterator[str]:
    for key, part in schema["properties"].items():
        here = f"{path}{key}"
        if "properties" not in part:
            yield here
        else:
            assert part["additionalProperties"] is False, here
            yield from properties(part, f"{here}.")
