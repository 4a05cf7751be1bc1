"""Reports to users of the cluster: Events, and the nudges that make kube-scheduler retry a pod."""
