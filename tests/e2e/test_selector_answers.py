"""The recorded answers about selectors are those of Kubernetes' own CEL."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.e2e.cluster.binaries import find_selector_answers
from tests.wire.dra.recorded_selectors import ANSWERS, SELECTORS

pytestmark = pytest.mark.release


def test_the_recorded_answers_are_those_of_kubernetes() -> None:
    cases = (SELECTORS / "cases.json").read_bytes()
    answered = subprocess.run([find_selector_answers()], input=cases, capture_output=True, check=True)
    assert json.loads(answered.stdout) == ANSWERS
