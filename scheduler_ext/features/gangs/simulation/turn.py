"""What one turn of a scheduler did to the jobs of a simulation."""

from dataclasses import dataclass, field
from typing import Protocol

from scheduler_ext.features.gangs.simulation.jobs import Job


@dataclass(slots=True)
class Turn:
    """The jobs that started, and those that left for others of higher priority and wait again."""

    started: list[Job] = field(default_factory=list[Job])
    evicted: list[Job] = field(default_factory=list[Job])


class JobScheduler(Protocol):
    """Decides about waiting jobs, and puts their pods on the floor."""

    def arrive(self, job: Job, now: float) -> Turn:
        """A further job waits."""

    def retry(self, now: float) -> Turn:
        """Jobs have left, so that others may fit."""

    @property
    def expires(self) -> float:
        """When a gang gives up next; infinite if none will."""

    def expire(self, now: float) -> Turn:
        """The gangs that give up now leave, and wait again."""

    @property
    def given_up(self) -> int:
        """How often a gang gave up with a part of its pods placed."""

    @property
    def deadlocked(self) -> int:
        """How many of these were in a deadlock."""
