// Package containers holds no code: its test checks what can be of the Containerfile, of deploy/compose and of deploy/cloud-init without an
// engine that runs containers.
package containers
