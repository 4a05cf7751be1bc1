"""Routes and listeners: the verbs of kube-scheduler, health and metrics, and inspection, in one process.
Answers come from the layers below; here they get an address and a status."""
