package mesh

import (
	"hash/fnv"
	"iter"
	"net/netip"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// A service without an address of its own gets one that nobody can reach outside the mesh, so that a client whose names
// the mesh resolves can be told which service it connects to. The ranges are Istio's: class E for IPv4, and for IPv6
// that of benchmarks (RFC 5180).
//
// Istio writes what it allocated into each ServiceEntry's status. Here the address follows from the host and its
// namespace alone: the hash of both is a slot, and where it is taken the service goes on to the next of its own sequence. So
// every discovery finds the same address, whenever it starts. The older of two services that want one slot keeps it; only
// if that one goes does the other move there.
const (
	slots           = 256 * 254
	slotPrime       = 65011 // the largest below slots that Istio's own sequence uses
	labelAllocation = "networking.istio.io/enable-autoallocate-ip"
)

var (
	allocatedIPv4 = netip.MustParsePrefix("240.240.0.0/16")
	allocatedIPv6 = netip.MustParsePrefix("2001:2::/48")
)

// allocatable reports whether a service may be given an address: one that is forwarded to where the client connected
// cannot, since that would be nowhere.
func (s *Service) allocatable() bool {
	if len(s.Addresses) != 1 || s.Addresses[0] != Unspecified || strings.EqualFold(s.Entry.Labels[labelAllocation], "false") {
		return false
	}
	if len(specOf[*networking.ServiceEntry](s.Entry).GetAddresses()) > 0 {
		return false
	}
	return s.Resolution != ResolutionNone && (!IsWildcard(s.Hostname) || s.Resolution == ResolutionDynamicDNS)
}

// allocation is who has which slot. It never changes. Services get slots as if they were given out anew each time, the older first.
type allocation struct {
	slots   table[hostKey, uint32]
	holders table[uint32, holder]
	// passed are the slots that somebody would have had, had nobody older had them: it may move there when those go.
	passed table[uint32, bool]
}

// holder has a slot: services whose address people chose there, so many, or the host of the service, the oldest of those that want one.
type holder struct {
	reserved int
	first    *Service
}

// following is the allocation after some hosts changed. It tells which others have moved; all are the services of every host, for when there
// is no telling without giving out every slot anew.
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
	anew.change(everything) // there is nothing that could stand in the way
	var moved []hostKey
	for key := range everything {
		before, had := a.slots.find(key)
		if now, has := anew.slots.find(key); had != has || before != now {
			moved = append(moved, key)
		}
	}
	return anew.done(), moved
}

// slot is that of a host, and whether it has one.
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

// change makes the changes, if none of them moves another host.
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

// release gives a slot back, unless somebody may have waited for it.
func (e allocationEdit) release(key hostKey) bool {
	slot, ok := e.slots.find(key)
	if !ok {
		return true // there was none for it
	}
	e.slots.remove(key)
	e.holders.remove(slot)
	return !e.passed.get(slot)
}

// reserve keeps out of the way of addresses in the same ranges that people chose themselves.
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

// claim takes the first slot of the host's sequence that nobody has. It fails if somebody younger has one before that.
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
	return true // 64,770 services have addresses; this one is told by its host alone
}

// firstAllocatable is the oldest service of a host that wants an address; every entry for the host has the same.
func firstAllocatable(services []*Service) *Service {
	if i := slices.IndexFunc(services, (*Service).allocatable); i >= 0 {
		return services[i]
	}
	return nil
}

// reservedSlots are those of the addresses that people chose for the services of a host, each once.
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

// sequence yields the slots that a host may have, the first one first. The first two are those of Istio's older
// allocation, the lower first: that is where it put a host that several entries declare.
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

// at is the service with the addresses of a slot. Before may be what a service of the same shape became.
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

// AddressesFor returns the addresses of the service for a proxy: those it was given, else, where the mesh resolves the
// names of the proxy's machine, those allocated to it in the families that the machine has.
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
