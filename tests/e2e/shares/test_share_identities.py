"""Rights of the extender that binds shares, checked at the API server with its token."""

from __future__ import annotations

from tests.e2e.installation import Installation
from tests.e2e.test_identities import NEVER, READS, SHARES, WRITES, assert_rights, own


def test_the_rights_of_the_extender_of_shares(share_installation: Installation) -> None:
    assert_rights(own(share_installation, "extender"), [*READS, *WRITES, *SHARES], NEVER)
