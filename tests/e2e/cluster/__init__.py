"""A Kubernetes control plane on loopback, and a kubelet that runs pods as processes of this machine."""
