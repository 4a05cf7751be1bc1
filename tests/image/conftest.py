"""One build for all tests, and the file system of the image."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.image.builds import Buildah, Built


@pytest.fixture(scope="session")
def buildah() -> Iterator[Buildah]:
    # Not in pytest's folder, which keeps what earlier runs wrote.
    buildah = Buildah(Path(mkdtemp(prefix="image-")))
    buildah.base("build", "amd64")
    buildah.base("run", "amd64")
    yield buildah
    buildah.remove()


@pytest.fixture(scope="session")
def image(buildah: Buildah) -> Built:
    return buildah.image("first")


@pytest.fixture(scope="session")
def files(buildah: Buildah, image: Built) -> Path:
    return buildah.mount(image.name)
