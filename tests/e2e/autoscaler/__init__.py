"""The product beside an autoscaler: the real Karpenter buys nodes, and the tests bring them to life."""
