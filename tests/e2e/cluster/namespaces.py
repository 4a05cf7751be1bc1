"""What a container has of its own here: a host name, and its token where every container finds one.

Linux namespaces for both (unshare of util-linux); where the user is not root, in a user namespace of its own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

# Over /run, because /var/run is a link to it: what the machine has there is none of a container's business.
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
    """The command on a host of that name; `token` is a directory to be found as `token_directory`."""
    user = () if os.geteuid() == 0 else ("--map-root-user",)
    own = ("unshare", *user, "--uts", "--mount", "--", "sh", "-ec", _ENTER, "sh")
    return [*own, host_name, str(token or ""), token_directory, *map(str, command)]
