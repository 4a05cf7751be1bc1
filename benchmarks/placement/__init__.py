"""GPU allocation by policy on the openb traces, beside the published figures.

The traces are not part of the project: `--traces` names the folder. Without it, the generator's cluster and
pods are used, for which no figures were published. `floors` lists the promised margins, and whether they
hold.
"""
