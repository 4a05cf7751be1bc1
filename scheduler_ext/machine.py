"""The machine line of a report, needed to compare measurements."""

import os
import platform
import re
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGES = ("scheduler-ext", "flask", "gunicorn", "msgspec", "numpy", "werkzeug")


def describe_machine() -> dict[str, Any]:
    """CPU, cores this process may use, memory in MiB, load average, platform, Python and package versions."""
    cpus = Path("/proc/cpuinfo")
    model = re.search(r"^model name\s*: (.*)", cpus.read_text() if cpus.exists() else "", re.MULTILINE)
    return {
        "cpu": model[1] if model else platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memoryMiB": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20,
        "loadAverage1m": round(os.getloadavg()[0], 2),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
    }


def machine_line(machine: dict[str, Any]) -> str:
    """The description in one line of text."""
    packages = " ".join(f"{name} {version}" for name, version in machine["packages"].items() if version)
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memoryMiB']} MiB, "
        f"load {machine['loadAverage1m']}, {machine['platform']}, Python {machine['python']}, {packages}"
    )


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
