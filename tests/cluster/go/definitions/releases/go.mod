module definitions

go 1.26.0

require (
	github.com/bitnami-labs/sealed-secrets v0.32.2
	github.com/grafana/grafana-operator/v5 v5.19.4
	github.com/kubeflow/mpi-operator v0.8.0
	github.com/openshift/api v0.0.0-20251214014457-bfa868a22401
	github.com/prometheus-operator/prometheus-operator v0.85.0
	k8s.io/autoscaler/cluster-autoscaler/apis v0.0.0-20240830133931-adfbe7e45277
	sigs.k8s.io/scheduler-plugins v0.33.5
)
