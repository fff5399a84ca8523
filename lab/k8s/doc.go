// Package k8s runs jobs on a real Kubernetes of several nodes on one machine: each node is a set of namespaces with
// a containerd and a kubelet of its own. `make test-k8s` builds and starts it; README.md says how it is made.
package k8s
