// Package rows holds no code. Its test applies the manifests of the Gateway API's conformance suite to
// a Kubernetes cluster that one mesh reads, and as rows to another mesh that knows no cluster, and
// holds what proxies are sent by the one against what they are sent by the other.
package rows
