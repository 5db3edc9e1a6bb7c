package mesh

import (
	"hash/fnv"
	"iter"
	"net/netip"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/hostname"
)

// A service without an address of its own gets one that nobody can reach outside the mesh. A client
// whose names the mesh resolves connects to that, which tells its sidecar the service. The ranges
// are Istio's: class E for IPv4, and the benchmark range for IPv6 (RFC 5180).
//
// Istio writes what it allocated into the status of each ServiceEntry. Here the address follows
// from the host and its namespace alone: their hash is a slot, and if that is taken, the service
// tries the next slot of its own sequence. So every discovery finds the same address, whenever it
// starts. Of two services that want one slot the older keeps it; the other moves there only if the
// older one goes.
const (
	slots           = 256 * 254
	slotPrime       = 65011 // the largest below slots that Istio's own sequence uses
	labelAllocation = "networking.istio.io/enable-autoallocate-ip"
)

var (
	allocatedIPv4 = netip.MustParsePrefix("240.240.0.0/16")
	allocatedIPv6 = netip.MustParsePrefix("2001:2::/48")
)

// allocatable reports whether the service may be given an address. If its connections are forwarded
// to where the client connected, it may not: that would lead nowhere. Nobody connects to a pool.
func (s *Service) allocatable() bool {
	if s.Pool != nil || len(s.Addresses) != 1 || s.Addresses[0] != Unspecified || strings.EqualFold(s.Entry.Labels[labelAllocation], "false") {
		return false
	}
	if len(specOf[*networking.ServiceEntry](s.Entry).GetAddresses()) > 0 {
		return false
	}
	return s.Resolution != ResolutionNone && (!hostname.IsWildcard(s.Hostname) || s.Resolution == ResolutionDynamicDNS)
}

// allocation says which host has which slot. It never changes. The result is as if all slots were
// given out again, to the oldest service first.
type allocation struct {
	slots   table[hostKey, uint32]
	holders table[uint32, holder]
	// passed are the slots that hosts tried and found taken by an older one. If such a slot is
	// freed, a host may have to move there.
	passed table[uint32, bool]
}

// holder is what a slot is taken by: a number of services whose address people chose in it, or the
// host of the oldest service that wants it.
type holder struct {
	reserved int
	first    *Service
}

// following returns the allocation after some hosts changed, and the other hosts that moved. If it
// cannot tell how they move, it gives out every slot again, for which it needs all hosts.
func (a *allocation) following(changed map[hostKey]ownChange, all func() iter.Seq2[hostKey, []*Service]) (allocation, []hostKey) {
	e := a.edit()
	if e.change(changed) {
		return e.done(), nil
	}
	anew := (&allocation{}).edit()
	everything := map[hostKey]ownChange{}
	for key, services := range all() {
		everything[key] = ownChange{now: services}
	}
	anew.change(everything) // an empty allocation accepts every change
	var moved []hostKey
	for key := range everything {
		before, had := a.slots.find(key)
		if now, has := anew.slots.find(key); had != has || before != now {
			moved = append(moved, key)
		}
	}
	return anew.done(), moved
}

// slot returns the slot of a host, if it has one.
func (a *allocation) slot(of hostKey) (uint32, bool) { return a.slots.find(of) }

type allocationEdit struct {
	slots   *tableEdit[hostKey, uint32]
	holders *tableEdit[uint32, holder]
	passed  *tableEdit[uint32, bool]
}

func (a *allocation) edit() allocationEdit {
	return allocationEdit{a.slots.edit(), a.holders.edit(), a.passed.edit()}
}

func (e allocationEdit) done() allocation {
	return allocation{e.slots.done(), e.holders.done(), e.passed.done()}
}

// change makes the changes. It reports false if one of them would move another host.
func (e allocationEdit) change(changed map[hostKey]ownChange) bool {
	var claims []*Service
	for key, c := range changed {
		before, now := firstAllocatable(c.before), firstAllocatable(c.now)
		switch {
		case before != nil && now != nil && compareServices(before, now) == 0:
			if slot, ok := e.slots.find(key); ok {
				e.holders.set(slot, holder{first: now})
			}
			continue
		case before != nil && !e.release(key):
			return false
		}
		if now != nil {
			claims = append(claims, now)
		}
	}
	for _, c := range changed {
		if !e.reserve(reservedSlots(c.before), reservedSlots(c.now)) {
			return false
		}
	}
	slices.SortFunc(claims, compareServices)
	return !slices.ContainsFunc(claims, func(s *Service) bool { return !e.claim(s) })
}

// release frees a host's slot. It fails if another host may have been waiting for it.
func (e allocationEdit) release(key hostKey) bool {
	slot, ok := e.slots.find(key)
	if !ok {
		return true // it had none
	}
	e.slots.remove(key)
	e.holders.remove(slot)
	return !e.passed.get(slot)
}

// reserve takes the slots of addresses that people chose themselves.
func (e allocationEdit) reserve(before, now []uint32) bool {
	for _, slot := range without(before, now) {
		h := e.holders.get(slot)
		h.reserved--
		e.holders.put(slot, h, h.reserved == 0)
		if h.reserved == 0 && e.passed.get(slot) {
			return false
		}
	}
	for _, slot := range without(now, before) {
		h := e.holders.get(slot)
		if h.first != nil {
			return false
		}
		e.holders.set(slot, holder{reserved: h.reserved + 1})
	}
	return true
}

// claim takes the first free slot of the host's sequence. It fails if a younger service has an
// earlier one.
func (e allocationEdit) claim(s *Service) bool {
	for slot := range sequence(s.key()) {
		h, held := e.holders.find(slot)
		if !held {
			e.slots.set(s.key(), slot)
			e.holders.set(slot, holder{first: s})
			return true
		}
		if h.reserved == 0 && compareServices(h.first, s) > 0 {
			return false
		}
		e.passed.set(slot, true)
	}
	return true // 64,770 services have addresses; this one is known by its host alone
}

// firstAllocatable returns the oldest service of a host that wants an address. Every entry for the
// host has the same address.
func firstAllocatable(services []*Service) *Service {
	if i := slices.IndexFunc(services, (*Service).allocatable); i >= 0 {
		return services[i]
	}
	return nil
}

// reservedSlots returns the slots of the addresses that people chose for the services of a host.
func reservedSlots(services []*Service) []uint32 {
	var out []uint32
	for _, s := range services {
		for _, text := range s.Addresses {
			ip, err := netip.ParseAddr(text)
			if err != nil {
				continue
			}
			ip = ip.Unmap()
			if allocatedIPv4.Contains(ip) || allocatedIPv6.Contains(ip) {
				bytes := ip.AsSlice()
				out = append(out, uint32(bytes[len(bytes)-2])*255+uint32(bytes[len(bytes)-1])-1)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// sequence yields the slots that a host tries, in order. The first two are those of Istio's older
// allocation, the lower one first: that is where Istio put a host that several entries declare.
func sequence(of hostKey) func(yield func(uint32) bool) {
	h := fnv.New32a()
	h.Write([]byte(of.namespace + "/" + of.host))
	sum := h.Sum32()
	first := sum % slots
	step := slotPrime - sum%slotPrime
	second := (sum + step) % (slots - 1)
	return func(yield func(uint32) bool) {
		for n := range uint32(slots + 2) {
			slot := (second + n - 1) % slots
			switch n {
			case 0:
				slot = min(first, second)
			case 1:
				slot = max(first, second)
			}
			if (slot+1)%255 != 0 && !yield(slot) { // an address that ends in 0 looks like a network's
				return
			}
		}
	}
}

// at returns the service with the addresses of a slot. Before is what a service of the same shape
// became, and is reused if it fits.
func (s *Service) at(slot uint32, before *Service) *Service {
	own := s.copied()
	own.slot, own.Shape = slot, &Shape{}
	if before != nil && before.slot == slot {
		own.Shape = before.Shape
	}
	third, fourth := byte((slot+1)/255), byte((slot+1)%255)
	ipv4 := netip.AddrFrom4([4]byte{240, 240, third, fourth})
	ipv6 := allocatedIPv6.Addr().As16()
	ipv6[12], ipv6[13], ipv6[14], ipv6[15] = 0xf0, 0xf0, third, fourth
	own.Allocated = []string{ipv4.String(), netip.AddrFrom16(ipv6).String()}
	return own
}

// AddressesFor returns the addresses of the service for a proxy. If it has none of its own, and the
// mesh resolves the names of the proxy's machine, they are the allocated ones, of the address
// families that the machine has.
func (s *Service) AddressesFor(p *Proxy) []string {
	if !p.DNSCapture || len(s.Allocated) == 0 {
		return s.Addresses
	}
	var out []string
	if p.HasIPv4() {
		out = append(out, s.Allocated[0])
	}
	if p.HasIPv6() {
		out = append(out, s.Allocated[1])
	}
	return out
}
