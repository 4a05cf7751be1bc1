// Karpenter and KEDA, for the definitions of their objects (pkg/apis/crds, config/crd/bases). Nothing of them is
// built.
module scheduler-ext/autoscaler-config

go 1.26.0

require (
	github.com/kedacore/keda/v2 v2.21.0
	sigs.k8s.io/karpenter v1.14.1
)
