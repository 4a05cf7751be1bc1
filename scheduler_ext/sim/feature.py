"""The simulator, as an entry of the list of features. It is a room of its own beside them."""

from scheduler_ext.feature import Command, Feature

FEATURE = Feature(
    name="sim",
    commands=(
        Command(
            "simulate", "scheduler_ext.sim.commands", "Simulate the placement of many pods.", plugin=True
        ),
    ),
)
