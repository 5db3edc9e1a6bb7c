package netns

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os/exec"
	"sync"
	"testing"
)

// Switch connects namespaces. It is a namespace itself, and the default gateway of the others:
// packets to unknown addresses end there. Several goroutines may connect machines at once.
type Switch struct {
	*Namespace

	mu    sync.Mutex
	taken uint16  // the host number that was given last
	four  [4]byte // the networks of its addresses
	six   [16]byte
}

// bridge is the switch's interface, and first is its host number.
const (
	bridge = "br0"
	first  = 1
)

// NewSwitch creates a switch. All have the same addresses, because nobody sees another's
// namespaces: two in one test are networks that cannot be told apart by address.
func NewSwitch(t testing.TB) *Switch {
	t.Helper()
	return newSwitch(t, 77, 0x77)
}

// NewOuterSwitch creates a switch with other addresses, for what machines of several switches join.
func NewOuterSwitch(t testing.TB) *Switch {
	t.Helper()
	return newSwitch(t, 99, 0x99)
}

func newSwitch(t testing.TB, four, six byte) *Switch {
	t.Helper()
	s := &Switch{Namespace: New(t), taken: first, four: [4]byte{10, four}, six: [16]byte{0: 0xfd, 1: six}}
	s.Run("ip", "link", "add", bridge, "type", "bridge", "forward_delay", "0")
	s.Run("ip", "link", "set", bridge, "up")
	s.IPv4, s.IPv6 = s.number(s.Namespace, first, bridge)
	return s
}

// Machine creates a namespace on the switch. The first has the addresses 10.77.0.2 and fd77::2, and
// so on.
func (s *Switch) Machine(t testing.TB) *Namespace {
	t.Helper()
	n := New(t)
	n.Cable = s.Join(n)
	n.IPv4, n.IPv6 = n.Cable.IPv4, n.Cable.IPv6
	n.Run("ip", "route", "add", "default", "via", s.IPv4.String())
	n.Run("ip", "-6", "route", "add", "default", "via", s.IPv6.String())
	return n
}

// Cable connects a namespace to a switch.
type Cable struct {
	// IPv4 and IPv6 are the addresses of the namespace there.
	IPv4, IPv6 netip.Addr

	at           *Switch
	port, device string // its ends
}

// LeadsTo has machines of the switch reach those of another, which see the switch's address there,
// and reach none of this one. It skips the test where there is no nft.
func (s *Switch) LeadsTo(other *Switch) *Cable {
	s.t.Helper()
	if _, err := exec.LookPath("nft"); err != nil {
		s.t.Skip("this machine has no nft: tools/machine-packages installs it")
	}
	c := other.Join(s.Namespace)
	s.Run("sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
	s.Run("nft", "table ip out { chain out { type nat hook postrouting priority 100; oifname "+c.device+" masquerade; }; }")
	return c
}

// Join connects a namespace to the switch. What it sends elsewhere does not leave by this.
func (s *Switch) Join(n *Namespace) *Cable {
	s.t.Helper()
	host := s.take()
	c := &Cable{at: s, port: fmt.Sprintf("port%d", host), device: fmt.Sprintf("eth%d", n.cables)}
	n.cables++
	s.Run("ip", "link", "add", c.port, "type", "veth", "peer", "name", c.device, "netns", n.Name)
	s.Run("ip", "link", "set", c.port, "master", bridge, "up")
	n.Run("ip", "link", "set", c.device, "up")
	c.IPv4, c.IPv6 = s.number(n, host, c.device)
	return c
}

// take returns the next host number. None is given twice, so that nobody who remembers the address of
// a machine that is gone reaches another.
func (s *Switch) take() uint16 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken++
	return s.taken
}

// Cut loses what is sent through the cable, without a word to either end, until Mend.
func (c *Cable) Cut() { c.at.Run("bridge", "link", "set", "dev", c.port, "state", "disabled") }

// Mend undoes Cut.
func (c *Cable) Mend() { c.at.Run("bridge", "link", "set", "dev", c.port, "state", "forwarding") }

// number gives a namespace its addresses on the switch. With nodad the kernel does not wait to
// detect duplicates.
func (s *Switch) number(n *Namespace, host uint16, device string) (four, six netip.Addr) {
	a, b := s.four, s.six
	binary.BigEndian.PutUint16(a[2:], host)
	binary.BigEndian.PutUint16(b[14:], host)
	four, six = netip.AddrFrom4(a), netip.AddrFrom16(b)
	n.Run("ip", "addr", "add", four.String()+"/16", "dev", device)
	n.Run("ip", "addr", "add", six.String()+"/64", "dev", device, "nodad")
	return four, six
}
