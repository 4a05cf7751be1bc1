"""The product beside an autoscaler: the real Karpenter buys nodes, and the tests bring them to life. It is
built from `karpenter/go.mod` in minutes."""
