"""The fake NVML library: how it is built, and the state file it answers from, written from Python objects.

A test changes the objects and calls `write`; the library sees the new file at its next call. Faults are
NVML codes by function name, "*" for every function; `"15*1"` is code 15 at the first call only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SONAME = "libnvidia-ml.so.1"
STATE_VARIABLE = "FAKENVML_STATE"
CALLS_VARIABLE = "FAKENVML_CALLS"
MIB = 2**20
Fault = int | str


def build_library(directory: Path, *, old_driver: bool = False) -> Path:
    """Build the library into a directory and return its path; skips the test without a C compiler.

    `old_driver` leaves out functions that a library of some years ago lacks.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("the fake NVML library needs a C compiler (cc or gcc) on PATH")
    target = directory / SONAME
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{SONAME}"]
    flags += ["-DOLD_DRIVER"] if old_driver else []
    sources = sorted(map(str, HERE.glob("*.c")))
    done = subprocess.run([compiler, *flags, "-o", str(target), *sources], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


@dataclass
class FakeProfile:
    """A GPU instance profile: `index` is the number to ask with, `number` the id in all other calls."""

    index: int
    number: int
    slices: int
    instances: int
    memory_mib: int
    name: str
    size: int
    starts: tuple[int, ...]


@dataclass
class FakeUse:
    """The processes of a GPU or a MIG device: (PID, bytes or None) by kind: compute, graphics, mps."""

    compute: list[tuple[int, int | None]] = field(default_factory=list)
    graphics: list[tuple[int, int | None]] = field(default_factory=list)
    mps: list[tuple[int, int | None]] = field(default_factory=list)
    faults: dict[str, Fault] = field(default_factory=dict)

    def use_lines(self) -> Iterator[tuple[str, object]]:
        """Processes and faults, as the library reads them."""
        for kind in ("compute", "graphics", "mps"):
            listed: list[tuple[int, int | None]] = getattr(self, kind)
            yield kind, ",".join(f"{pid}:{-1 if used is None else used}" for pid, used in listed)
        for function, code in self.faults.items():
            yield f"err.{function}", code


@dataclass
class FakeMig(FakeUse):
    """A MIG device in a GPU instance; `profile` is as in its NVML name, such as 1c.3g.40gb."""

    uuid: str = ""
    profile: str = ""
    gpu_instance_id: int = 0
    start: int = 0
    size: int = 1
    # GPU slices, compute slices, MiB.
    attributes: tuple[int, int, int] | None = None
    named: bool = True

    def lines(self, gpu_name: str) -> Iterator[tuple[str, object]]:
        yield "uuid", self.uuid
        yield "name", f"{gpu_name} MIG {self.profile}" if self.named else gpu_name
        yield "gi", self.gpu_instance_id
        yield "placement", f"{self.start}:{self.size}"
        if self.attributes is not None:
            yield "attributes", ",".join(map(str, self.attributes))
        yield from self.use_lines()


@dataclass
class FakeGpu(FakeUse):
    """One GPU; `mig` is None where it has no such mode, `devices` are by index, None a hole."""

    uuid: str = ""
    name: str = ""
    architecture: int = 0
    capability: str = "0.0"
    total_mib: int = 0
    reserved_mib: int = 512
    used_mib: int = 0
    utilization: int | None = 0
    memory_utilization: int = 0
    milliwatts: int | None = 60_000
    celsius: int | None = 34
    clock_mhz: int | None = 345
    # nvmlClocksEventReasons; the first bit is that of an idle GPU.
    throttle: int | None = 1
    encoder: int | None = 0
    decoder: int | None = 0
    # The samples of one moment, in microseconds: percent of the multiprocessors and of the decoder by PID.
    busy: dict[int, tuple[int, int]] | None = field(default_factory=dict)
    busy_at: int = 0
    minor: int = 0
    pci: str = "00000000:3B:00.0"
    # A bit for each NUMA node that is near.
    numa: int | None = 1
    remapped: str | None = "0,0,0,0"
    # Whether pages are to be retired, 0 or 1; of GPUs without row remapping only.
    retirement: int | None = None
    # Uncorrectable errors since the last reset.
    ecc: int | None = 0
    # nvmlDeviceGpuRecoveryAction_t; None for a driver that came before it.
    action: int | None = 0
    # The code that stands in the place of the action, if not 0.
    action_error: int = 0
    events: int | None = 8
    mig: bool | None = None
    max_devices: int = 7
    profiles: tuple[FakeProfile, ...] = ()
    devices: list[FakeMig | None] = field(default_factory=list)

    def _optional(self) -> Iterator[tuple[str, object]]:
        """Values that a GPU need not have."""
        keys = ("utilization", "numa", "remapped", "retirement", "ecc", "events", "action", "throttle")
        named = {"power": self.milliwatts, "celsius": self.celsius, "clock": self.clock_mhz}
        named |= {"encoder": self.encoder, "decoder": self.decoder}
        values = {key: getattr(self, key) for key in keys} | named
        yield from ((key, value) for key, value in values.items() if value is not None)
        yield "memory.utilization", self.memory_utilization

    def lines(self) -> Iterator[tuple[str, object]]:
        for key in ("uuid", "name", "architecture", "capability", "minor", "pci"):
            yield key, getattr(self, key)
        for key in ("total", "reserved", "used"):
            yield f"memory.{key}", getattr(self, f"{key}_mib") * MIB
        yield from self._optional()
        if self.busy is not None:
            yield "busy", ",".join(f"{pid}:{sm}:{decoder}" for pid, (sm, decoder) in self.busy.items())
            yield "busy.at", self.busy_at
        yield "action.err", self.action_error
        yield from self.use_lines()
        if self.mig is None:
            return
        yield "mig", int(self.mig)
        yield "mig.max", self.max_devices
        for profile in self.profiles:
            key = f"profile.{profile.index}"
            yield key, f"{profile.number},{profile.slices},{profile.instances},{profile.memory_mib}"
            yield f"{key}.name", f"MIG {profile.name}"
            places = ",".join(f"{start}:{profile.size}" for start in profile.starts)
            yield f"placements.{profile.number}", places
        for index, device in enumerate(self.devices):
            if device is not None:
                for key, value in device.lines(self.name):
                    yield f"mig.{index}.{key}", value


@dataclass
class FakeNode:
    """A node with its GPUs, and the two files it shares with the library."""

    directory: Path
    gpus: list[FakeGpu] = field(default_factory=list)
    driver: str = "570.172.08"
    cuda: int = 12080
    faults: dict[str, Fault] = field(default_factory=dict)
    # Microseconds by function name.
    delays_us: dict[str, int] = field(default_factory=dict)
    # (XID, UUID of the GPU), oldest first; a library only returns events later than its event set.
    events: list[tuple[int, str]] = field(default_factory=list)
    _written_ns: int = 0

    @property
    def state(self) -> Path:
        return self.directory / "nvml.state"

    @property
    def calls_file(self) -> Path:
        return self.directory / "nvml.calls"

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables for the library's process."""
        return {STATE_VARIABLE: str(self.state), CALLS_VARIABLE: str(self.calls_file)}

    def write(self) -> None:
        """Make the library see the objects as they are now."""
        text = "".join(f"{key}={value}\n" for key, value in self._lines())
        new = self.state.with_suffix(".new")
        new.write_text(text)
        # Two writes within the clock's tick must differ to a reader that looks at the time.
        self._written_ns = max(time.time_ns(), self._written_ns + 1)
        os.utime(new, ns=(self._written_ns, self._written_ns))
        new.replace(self.state)

    def calls(self) -> Counter[str]:
        """How often each function was called since `forget_calls`."""
        lines = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        return Counter(line.split()[0] for line in lines)

    def forget_calls(self) -> None:
        self.calls_file.unlink(missing_ok=True)

    def _lines(self) -> Iterator[tuple[str, object]]:
        yield "driver", self.driver
        yield "cuda", self.cuda
        yield "gpus", len(self.gpus)
        for function, code in self.faults.items():
            yield f"err.{function}", code
        for function, delay in self.delays_us.items():
            yield f"delay_us.{function}", delay
        yield "event.count", len(self.events)
        for number, (xid, uuid) in enumerate(self.events):
            yield f"event.{number}", f"{xid},{uuid}"
        for index, gpu in enumerate(self.gpus):
            for key, value in gpu.lines():
                yield f"gpu.{index}.{key}", value
