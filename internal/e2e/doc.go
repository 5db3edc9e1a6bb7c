// Package e2e holds the promises of the whole pipeline against what real programs do: a row committed in a real Postgres goes
// through mcp-server and discovery into real Envoys, and real requests tell whether it took effect. One file a promise.
//
// Most tests share a control plane. Each has a namespace of its own, which the mesh is configured to keep from the others, and a
// mesh-agent with an Envoy of its own, which listens on ports of the loopback interface (interception mode NONE). Tests that
// kill have a control plane of their own.
package e2e
