"""A container's own host name and its own token at the usual path.

Linux namespaces for both (unshare of util-linux); if the user is not root, in a user namespace.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

# Over /run, because /var/run is a link to it: a container must not see the machine's files there.
_ENTER = """
hostname "$1"
if [ -n "$2" ]; then
    mount -t tmpfs none /run
    mkdir -p "/run/${3#/var/run/}"
    mount --bind "$2" "/run/${3#/var/run/}"
fi
shift 3
exec "$@"
"""


def confined(
    command: Sequence[str | Path], host_name: str, token: Path | None, token_directory: str
) -> list[str]:
    """The command on a host of that name; `token` is the directory that appears as `token_directory`."""
    user = () if os.geteuid() == 0 else ("--map-root-user",)
    own = ("unshare", *user, "--uts", "--mount", "--", "sh", "-ec", _ENTER, "sh")
    return [*own, host_name, str(token or ""), token_directory, *map(str, command)]
