// Package interop tests pgmesh beside a real istiod, which tools/istiod builds from Istio's modules.
//
// In `make interop` the istiod reads its configuration from mcp-server, and our clients query both. In
// `make from-istio` it reads a real Kubernetes API server, with Istio's own agents on machines, which
// move to pgmesh and back. Tests are skipped without what their target builds.
package interop
