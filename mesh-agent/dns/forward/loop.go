package forward

import (
	"context"
	"crypto/rand"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// loopDomain is one that nobody has. A name beneath it that comes back to us went round in a circle.
const loopDomain = ".loop-check.mesh-agent."

// FindLoops asks those upstreams that are on this machine for names that nobody else knows, and leaves out those that ask us for it in turn.
// Only such can: from elsewhere nobody reaches a resolver on loopback.
func (f *Forwarder) FindLoops(ctx context.Context) {
	f.mu.Lock()
	upstreams := append([]*upstream(nil), f.upstreams...)
	f.mu.Unlock()
	for _, u := range upstreams {
		if u.loops || !onThisMachine(u.address.Addr()) {
			continue
		}
		name := strings.ToLower(rand.Text()) + loopDomain
		f.expected.Store(name, u)
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		q := Question{Name: name, Type: dns.TypeTXT}
		_, _ = exchangeBy(ctx, "udp", u.address, q, q.message()) // what it says is of no interest
		cancel()
		f.expected.Delete(name)
	}
}

// Looped is told each name that somebody asks for, and says whether it went round in a circle.
func (f *Forwarder) Looped(name string) bool {
	if !strings.HasSuffix(name, loopDomain) {
		return false
	}
	at, ours := f.expected.Load(name)
	if !ours {
		return true // of another agent on this machine, or late: nobody has it
	}
	u := at.(*upstream)
	f.mu.Lock()
	u.loops = true
	f.mu.Unlock()
	f.log.Error("a resolver on this machine asks this one for what it does not know, and is not asked any more; "+
		"have it ask another, or name others with --dns-upstream", "upstream", u.address)
	return true
}

func onThisMachine(ip netip.Addr) bool {
	if ip.IsLoopback() {
		return true
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok {
			if own, ok := netip.AddrFromSlice(n.IP); ok && own.Unmap() == ip.WithZone("") {
				return true
			}
		}
	}
	return false
}
