"""One certificate authority for all tests, and the certificates of their servers."""

from __future__ import annotations

import pytest

from scheduler_ext.server.server_options import TlsFiles
from tests.server.http.authority import Authority


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="session")
def files(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return authority.write_server(tmp_path_factory.mktemp("tls"))
