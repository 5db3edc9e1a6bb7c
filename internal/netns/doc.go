// Package netns gives a test machines of its own, as far as their network is concerned: network namespaces on one switch, each with an IPv4 and
// an IPv6 address, a loopback interface and a default route. What a test does to their firewalls and routes touches nobody else, and
// is gone with the test. There are no such namespaces but on Linux.
package netns
