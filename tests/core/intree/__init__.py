"""kube-scheduler's own verdicts, beside answers of the real one."""
