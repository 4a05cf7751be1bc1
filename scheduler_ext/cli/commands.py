"""The commands of the kernel."""

from scheduler_ext.feature import Command

COMMANDS = (
    Command("serve", "scheduler_ext.cli.serve", "Run the extender for kube-scheduler."),
    Command("agent", "scheduler_ext.cli.agent", "Report the GPUs of this node as its GPUNode."),
    Command(
        "why", "scheduler_ext.cli.why", "Explain why a pod waits, or why it is on its node.", plugin=True
    ),
    Command(
        "explain",
        "scheduler_ext.cli.explain",
        "Explain which nodes fit a pod, and why the others do not.",
        plugin=True,
    ),
    Command(
        "capacity", "scheduler_ext.cli.explain", "Count how many more pods like this one fit.", plugin=True
    ),
    Command(
        "nodes",
        "scheduler_ext.cli.node",
        "List the nodes with GPUs, free memory and MIG instances.",
        plugin=True,
    ),
    Command(
        "node", "scheduler_ext.cli.node", "Show the GPUs of a node and the pods that hold them.", plugin=True
    ),
    Command("pods", "scheduler_ext.cli.node", "List the pods that hold GPUs or wait for them.", plugin=True),
    Command(
        "inventory",
        "scheduler_ext.cli.inventory",
        "List nodes with their GPUs, free memory and MIG instances.",
    ),
    Command("replay", "scheduler_ext.cli.explain", "Explain a pod from the saved state of an extender."),
    Command("reasons", "scheduler_ext.cli.reference", "List the reasons for rejected nodes.", plugin=True),
    Command("check-config", "scheduler_ext.cli.reference", "Check a configuration of the extender."),
    Command("demo", "scheduler_ext.cli.demo", "Serve a sample inventory and place sample pods on it."),
    Command(
        "completion", "scheduler_ext.cli.completion", "Print the completion script for a shell.", plugin=True
    ),
)
