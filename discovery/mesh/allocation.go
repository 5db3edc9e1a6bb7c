package mesh

import (
	"hash/fnv"
	"net/netip"
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

// allocation gives out slots.
type allocation struct {
	slotOf map[hostKey]uint32
	taken  map[uint32]bool
}

// allocate gives addresses to services, the older first, in copies: the services of an entry alone may be those of the
// mesh before. A copy that the mesh before made is taken over.
func (x *serviceIndex) allocate(prev map[*Service]*Service) {
	a := allocation{slotOf: map[hostKey]uint32{}, taken: map[uint32]bool{}}
	for _, s := range x.all {
		a.reserve(s.Addresses)
	}
	x.allocated = map[*Service]*Service{}
	for i, s := range x.all {
		if !s.allocatable() {
			continue
		}
		slot, ok := a.slot(hostKey{s.Namespace, s.Hostname})
		if !ok {
			continue // 64,770 services have addresses; this one is told by its host alone
		}
		own := prev[s]
		if own == nil || own.slot != slot {
			own = s.at(slot)
		}
		x.allocated[s], x.all[i] = own, own
	}
}

// reserve keeps out of the way of addresses in the same ranges that people chose themselves.
func (a *allocation) reserve(addresses []string) {
	for _, text := range addresses {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		ip = ip.Unmap()
		if allocatedIPv4.Contains(ip) || allocatedIPv6.Contains(ip) {
			bytes := ip.AsSlice()
			a.taken[uint32(bytes[len(bytes)-2])*255+uint32(bytes[len(bytes)-1])-1] = true
		}
	}
}

// slot finds the one for a host; every entry for the host has the same.
func (a *allocation) slot(of hostKey) (slot uint32, ok bool) {
	if slot, ok = a.slotOf[of]; ok {
		return slot, true
	}
	for slot := range sequence(of) {
		if !a.taken[slot] {
			a.slotOf[of], a.taken[slot] = slot, true
			return slot, true
		}
	}
	return 0, false
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

// at is the service with the addresses of a slot.
func (s *Service) at(slot uint32) *Service {
	own := *s
	own.slot = slot
	third, fourth := byte((slot+1)/255), byte((slot+1)%255)
	ipv4 := netip.AddrFrom4([4]byte{240, 240, third, fourth})
	ipv6 := allocatedIPv6.Addr().As16()
	ipv6[12], ipv6[13], ipv6[14], ipv6[15] = 0xf0, 0xf0, third, fourth
	own.Allocated = []string{ipv4.String(), netip.AddrFrom16(ipv6).String()}
	return &own
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
