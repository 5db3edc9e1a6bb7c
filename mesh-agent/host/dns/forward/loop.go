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

// loopDomain does not exist. A query for a name below it can only be one of our own that came back.
const loopDomain = ".loop-check.mesh-agent."

// FindLoops asks the upstreams on this machine for unique names, and stops using those that ask us
// in turn. Others need no check: a resolver on loopback can only be reached from its machine.
func (f *Forwarder) FindLoops(ctx context.Context) {
	f.mu.Lock()
	upstreams := append([]*upstream(nil), f.upstreams...)
	f.mu.Unlock()
	for _, u := range upstreams {
		if u.looping || !onThisMachine(u.address.Addr()) {
			continue
		}
		name := strings.ToLower(rand.Text()) + loopDomain
		f.loopProbes.Store(name, u)
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		q := Question{Name: name, Type: dns.TypeTXT}
		_, _ = exchangeBy(ctx, "udp", u.address, q, q.message()) // only whether it asks us matters
		cancel()
		f.loopProbes.Delete(name)
	}
}

// Looped reports whether a query is one of our own that came back, and marks the upstream that sent
// it. It is called for every query.
func (f *Forwarder) Looped(name string) bool {
	if !strings.HasSuffix(name, loopDomain) {
		return false
	}
	at, ours := f.loopProbes.Load(name)
	if !ours {
		return true // another agent's, or late: the name does not exist
	}
	u := at.(*upstream)
	f.mu.Lock()
	u.looping = true
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
