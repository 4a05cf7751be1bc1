"""The activity of a GPU at this moment. NVML's utilisation calls do not cover MIG instances."""

import time
from dataclasses import replace

from scheduler_ext.agent.node_reading import Samples
from scheduler_ext.agent.nvml import Handle, Nvml


class Sampler:
    """Samples one GPU; remembers which samples of its processes were read."""

    def __init__(self) -> None:
        self._since_us = 0

    def read(self, nvml: Nvml, gpu: Handle, *, mig: bool) -> Samples:
        """The samples now. In MIG mode, those of the whole GPU, without its utilisation."""
        power_mw = nvml.get("nvmlDeviceGetPowerUsage", gpu)
        samples = Samples(
            power_watts=None if power_mw is None else power_mw / 1000,
            temperature_celsius=nvml.temperature_celsius(gpu),
            sm_clock_mhz=nvml.sm_clock_mhz(gpu),
            throttle_reasons=nvml.throttle_reasons(gpu),
        )
        return samples if mig else self._with_use(samples, nvml, gpu)

    def _with_use(self, samples: Samples, nvml: Nvml, gpu: Handle) -> Samples:
        rates = nvml.get("nvmlDeviceGetUtilizationRates", gpu)
        busy_pids = None
        # Samples have the host's time. Where that was set back, later ones than the last are in the future.
        found = nvml.busy_processes(gpu, min(self._since_us, int(time.time() * 1e6)))
        if found is not None:
            busy_pids, self._since_us = found
        computing = None if rates is None else rates.gpu > 0 or bool(busy_pids) or _codes(nvml, gpu)
        return replace(
            samples,
            utilization_percent=None if rates is None else min(int(rates.gpu), 100),
            memory_utilization_percent=None if rates is None else min(int(rates.memory), 100),
            computing=computing,
            busy_pids=busy_pids,
        )


def _codes(nvml: Nvml, gpu: Handle) -> bool:
    """Whether it encodes or decodes video, which the utilisation leaves out."""
    calls = ("nvmlDeviceGetEncoderUtilization", "nvmlDeviceGetDecoderUtilization")
    return any((rates := nvml.get(call, gpu)) is not None and rates[0] > 0 for call in calls)
