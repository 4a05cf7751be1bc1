"""Deadlocks of gangs that start pod by pod: each holds GPUs that another one needs."""

from scheduler_ext.features.gangs.planning.draining import remove_all
from scheduler_ext.features.gangs.planning.gang_fit import GangFit, fit
from scheduler_ext.features.gangs.simulation.floor import Floor, FloorPlaces
from scheduler_ext.features.gangs.simulation.jobs import Job


def deadlocked(floor: Floor, places: FloorPlaces) -> set[Job]:
    """The gangs with a part of their pods placed that could not start if all jobs that have started left and
    no further one came. The floor is unchanged."""
    waiting = floor.partial()
    started = {job.key or job.pods[0].uid for job in floor.started()}
    mark = places.mark()
    remove_all(places, (each for each in floor.running() if (each.gang or each.uid) in started))
    progress = True
    while progress:
        progress = False
        for job in list(waiting):
            before = places.mark()
            missing = [member for member in job.gang.members if floor.of(member.uid) is None]
            if isinstance(fit(job.gang, places, {}, members=missing), GangFit):
                # It starts, and leaves.
                places.rollback(before)
                remove_all(places, (each for each in floor.running() if each.gang == job.key))
                waiting.remove(job)
                progress = True
    places.rollback(mark)
    return set(waiting)
