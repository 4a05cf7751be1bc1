"""The cost of an extender for a real kube-scheduler: `python -m benchmarks.scheduler`.

A control plane on this machine, N nodes of eight GPUs, and a queue of pods that request one GPU each. The
contenders schedule it in turn (`contenders.py`), and kube-scheduler's own metrics show how long the decisions
took and how many pods a second it bound. The comparison is fair because:

- One kube-scheduler process runs at a time, started for its block. Each keeps every node and pod in its cache
and handles every event, so others that wait beside it would take part of two cores, and a process that has
served longer would have another heap. The control plane's default scheduler runs throughout, as it does
beside a second scheduler in a cluster. Extenders that wait for their turn cost nothing.
- All pods are in the queue before the process starts, the same ones for all contenders of a round, and the
first of them, which fill caches and connections, are not counted (`block.py`).
- Contenders follow each other within a round, in an order that rotates from round to round. The machine's
speed drifts more than contenders differ, so ratios are taken within a round; the report has their median over
the rounds, and the least and the greatest.
- One is kube-scheduler as it comes, which is what people run. Most others run the shipped configuration
(`contenders.py` lists the changes). The no-op extenders run on the extender's own transport, so only the
decision differs.
- The extender decides from a file: it does not see the bindings of the run. All nodes have room, so no
contender rejects any.
- Pods are alike to the byte except for their names, as kube-scheduler without an extender needs them for its
opportunistic batching, and the extender remembers decisions about equal requests; with `--asks different`
every pod differs (`pods.py`). The report has the part of the pods that were batched. 1.36 batches only pods
that fill their node, such as those of `--gpus 8`; 1.37 batches others, too.
- The shipped configuration switches kube-scheduler's default topology spread off, which would prevent
batching.
- KUBERNETES_VERSION=1.37 chooses the release of kube-scheduler and of the control plane.
"""
