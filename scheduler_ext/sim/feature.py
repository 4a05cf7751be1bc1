"""What the simulator gives to the kernel. It is a room of its own beside the features."""

from scheduler_ext.feature import Command, Feature

SIM = Feature(
    name="sim",
    commands=(
        Command(
            "simulate", "scheduler_ext.sim.commands", "Simulate the placement of many pods.", plugin=True
        ),
    ),
)
