// Package netns gives a test network namespaces, which act as machines on one switch. Each has an
// IPv4 and an IPv6 address, a loopback interface and a default route. Changes to their firewalls
// and routes affect nobody else and vanish with the test. It needs Linux.
package netns
