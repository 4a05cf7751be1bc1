"""Fixtures of the agent's tests."""

from tests.agent.nvml_mock.fixtures import fake_library, old_fake_library, old_rig, rig

__all__ = ["fake_library", "old_fake_library", "old_rig", "rig"]
