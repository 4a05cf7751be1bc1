"""Bursts of pods on a cluster that the extender follows: `python -m benchmarks.scheduler.bursts`.

The other suite has all pods in the queue before kube-scheduler starts, and an extender that decides from a
file. In a cluster, the extender follows it, on the same two cores as the API server here. So a control plane
on this machine has N nodes of sixteen GPUs with a report of each. kube-scheduler and the extender run, are
warmed up, and are paused (SIGSTOP) while 1,000 pods that request one GPU are created. The time from the end
of the pause to the last binding counts: the creation of pods would otherwise be the limit in small clusters.

stock: kube-scheduler as it comes
none: kube-scheduler with the shipped configuration, without an extender (1.37 batches equal pods)
noop-100: an extender that returns the first 100 names
ours: this extender, with the shipped configuration
every-node: the same with `percentageOfNodesToScore: 100`

With `--apart`, the API server and etcd have one core, and kube-scheduler and the extender another.

Each contender's processes run only for its turn, after a warm-up on other pods; the order rotates from round
to round, and ratios are taken within a round.
"""
