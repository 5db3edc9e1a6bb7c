package netns

import (
	"fmt"
	"net/netip"
	"testing"
)

// Switch connects namespaces. It is a namespace itself, and the default gateway of the others:
// packets to unknown addresses end there.
type Switch struct {
	*Namespace

	taken int
}

// bridge is the switch's interface, and first is its host number.
const (
	bridge = "br0"
	first  = 1
)

// NewSwitch creates a switch. All tests use the same addresses, because no test sees another's
// namespaces.
func NewSwitch(t testing.TB) *Switch {
	t.Helper()
	s := &Switch{Namespace: New(t), taken: first}
	s.Run("ip", "link", "add", bridge, "type", "bridge", "forward_delay", "0")
	s.Run("ip", "link", "set", bridge, "up")
	s.number(first, bridge)
	return s
}

// Machine creates a namespace on the switch. The first has the addresses 10.77.0.2 and fd77::2, and
// so on.
func (s *Switch) Machine(t testing.TB) *Namespace {
	t.Helper()
	n := New(t)
	s.taken++
	port := fmt.Sprintf("port%d", s.taken)
	s.Run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", n.Name)
	s.Run("ip", "link", "set", port, "master", bridge, "up")
	n.Run("ip", "link", "set", "eth0", "up")
	n.number(s.taken, "eth0")
	n.Run("ip", "route", "add", "default", "via", s.IPv4.String())
	n.Run("ip", "-6", "route", "add", "default", "via", s.IPv6.String())
	return n
}

// number sets the addresses of a namespace. With nodad the kernel does not wait to detect
// duplicates.
func (n *Namespace) number(host int, device string) {
	n.IPv4 = netip.AddrFrom4([4]byte{10, 77, 0, byte(host)})
	n.IPv6 = netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x77, 15: byte(host)})
	n.Run("ip", "addr", "add", n.IPv4.String()+"/24", "dev", device)
	n.Run("ip", "addr", "add", n.IPv6.String()+"/64", "dev", device, "nodad")
}
