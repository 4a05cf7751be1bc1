// Kueue, for the definitions of its objects (config/components/crd/bases). Nothing of it is built.
module scheduler-ext/kueue

go 1.26.0

require sigs.k8s.io/kueue v0.17.0
