// Package interop tests pgmesh beside a real istiod, which tools/istiod builds from Istio's
// modules. The istiod reads its configuration from mcp-server, and our clients query both. The
// tests are skipped without an istiod; `make interop` builds one.
package interop
