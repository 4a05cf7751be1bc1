"""How much of the GPUs each policy fills, on the openb traces beside the published figures.

The traces are not part of the project: `--traces` names the folder. Without it the generator's cluster and
pods are taken, for which nothing was published. `floors` says what is promised, and whether it holds.
"""
