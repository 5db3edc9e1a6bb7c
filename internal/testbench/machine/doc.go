// Package machine boots test machines. Each has its own systemd, its own network
// (internal/testbench/netns) and a writable view of the host's files, whose changes vanish with the
// test. Tests install packages there as people do. It needs Linux, root and systemd.
package machine
