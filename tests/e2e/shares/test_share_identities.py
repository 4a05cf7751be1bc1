"""Rights of the extender that binds shares, checked at the API server with its token."""

from __future__ import annotations

import pytest

from tests.e2e.cluster.api import Json
from tests.e2e.installation import Installation
from tests.e2e.test_identities import NEVER, READS, SHARES, WRITES, may, own


@pytest.mark.parametrize(("verb", "what"), [*READS, *WRITES, *SHARES])
def test_the_extender_of_shares(share_installation: Installation, verb: str, what: Json) -> None:
    assert may(own(share_installation, "extender"), verb, what)


@pytest.mark.parametrize(("verb", "what"), NEVER)
def test_the_extender_of_shares_does_not(share_installation: Installation, verb: str, what: Json) -> None:
    assert not may(own(share_installation, "extender"), verb, what)
