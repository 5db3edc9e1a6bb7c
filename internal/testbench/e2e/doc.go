// Package e2e tests the whole pipeline with real programs: a row committed in a real Postgres goes
// through mcp-server and discovery into real Envoys, and real requests show whether it took effect.
// Each file tests one promise.
package e2e
