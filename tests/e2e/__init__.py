"""The product as its users run it: installed on a real control plane, called by a real scheduler.

`make e2e` starts etcd, kube-apiserver, kube-controller-manager and kube-scheduler on loopback, with
authentication and RBAC. A kubelet of the tests runs the containers of the shipped manifests as processes,
with their arguments, volumes, tokens, probes and restarts; `cluster/images.py` has the differences to a
container. kubectl logs and port-forwards go through the API server to a Go program around Kubernetes' own
library (`kubelet_server`).

The binaries are built once from the Go modules in `versions` into `~/.cache/scheduler-ext`, which takes
minutes and needs Go and etcd. With `KUBEBUILDER_ASSETS`, only the kubelet's server is built.
KUBERNETES_VERSION chooses the release for pytest and for benchmarks. A new patch release is a version in
`versions/MINOR/go.mod` with its `replace` lines, for the default one also in `kubelet_server/go.mod` and in
`manifests/base/deployment.yaml`. A new minor release is a copy of such a folder. Every release has a row in
`files/kube-scheduler-versions.yaml` of the chart and in `docs/reference/version-skew.md`.

- A test takes the fixture `workload`: nodes, pods and PriorityClasses in a namespace of its own, deleted at
  its end. `share_workload` is the same with bound shares. The files that use one installation run one after
  the other.
- `eventually` waits for a condition. A test sleeps only to show that nothing happens.
- `GPU_SHARE_RACES` is the number of races in a run.
- Expected answers about CEL selectors come from Kubernetes' own package: after a change of its release or of
  the cases, in `selector_answers`:
  `go run . < ../../wire/dra/golden/cases.json > ../../wire/dra/golden/answers.json`.
"""
