"""The settings of DeviceTaintRules."""

from scheduler_ext.wire.config import Section


class DraSection(Section):
    key = "dra"
    device_taints: bool = False


SECTIONS = (DraSection,)
