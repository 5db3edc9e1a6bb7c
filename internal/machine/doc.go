// Package machine gives a test machines that have been started: each has a systemd of its own, which runs services as their units say, a network
// of its own (internal/netns), and the files of the machine that the test runs on, which it may change: its changes are gone with the test. Packages
// are installed there as people install them. There are no such machines but on Linux, for root, where systemd is installed.
package machine
