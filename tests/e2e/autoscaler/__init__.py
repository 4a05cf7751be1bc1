"""The product beside an autoscaler: the real Karpenter buys nodes, and the tests bring them to life. It is
built from `karpenter/go.mod` in minutes. With `-s`, the module prints a table of pods, needed nodes and
bought nodes."""
