// Package containers has no code. Its tests check as much of the Containerfile, deploy/compose and
// deploy/cloud-init as is possible without a container engine.
package containers
