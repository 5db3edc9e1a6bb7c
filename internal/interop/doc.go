// Package interop runs pgmesh beside a real istiod, which tools/istiod builds from Istio's modules: mcp-server is the source of its configuration, and our
// readers ask it as they ask mcp-server. The tests are skipped where no istiod was built; make interop builds it.
package interop
