// Package gatewayapi runs the conformance suite of the Gateway API, unchanged, against pgmesh.
//
// There is a real API server with its etcd, mcp-server and discovery, and for each Gateway a machine
// with mesh-agent and an Envoy. Package node runs the suite's applications, package operator does
// what people do who run machines, and package verdict holds what came out of it to what is expected.
//
// All of it is in a network of its own: the test starts itself there, with the programs that it has
// built.
package gatewayapi
