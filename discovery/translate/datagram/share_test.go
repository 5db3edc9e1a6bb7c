package datagram

import (
	"fmt"
	"testing"

	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	udpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/udp/udp_proxy/v3"
	hashingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/input_matchers/consistent_hashing/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
)

// drawn follows a matcher for what the draws of an address and of a port say: a bit for each seed.
type drawn struct{ address, port uint64 }

func (d drawn) holds(t *testing.T, p *xdsmatcherv3.Matcher_MatcherList_Predicate) bool {
	t.Helper()
	switch of := p.GetMatchType().(type) {
	case *xdsmatcherv3.Matcher_MatcherList_Predicate_AndMatcher:
		for _, one := range of.AndMatcher.GetPredicate() {
			if !d.holds(t, one) {
				return false
			}
		}
		return true
	case *xdsmatcherv3.Matcher_MatcherList_Predicate_OrMatcher:
		for _, one := range of.OrMatcher.GetPredicate() {
			if d.holds(t, one) {
				return true
			}
		}
		return false
	case *xdsmatcherv3.Matcher_MatcherList_Predicate_NotMatcher:
		return !d.holds(t, of.NotMatcher)
	}
	single, hashing := p.GetSinglePredicate(), &hashingv3.ConsistentHashing{}
	require.NoError(t, single.GetCustomMatch().GetTypedConfig().UnmarshalTo(hashing))
	if single.GetInput().GetName() == "source-ip" {
		return d.address>>hashing.GetSeed()&1 == 1
	}
	return d.port>>(hashing.GetSeed()-portSeeds)&1 == 1
}

func (d drawn) cluster(t *testing.T, m *xdsmatcherv3.Matcher) string {
	t.Helper()
	on := m.GetOnNoMatch()
	for _, one := range m.GetMatcherList().GetMatchers() {
		if d.holds(t, one.GetPredicate()) {
			on = one.GetOnMatch()
			break
		}
	}
	if on.GetMatcher() != nil {
		return d.cluster(t, on.GetMatcher())
	}
	var to udpproxyv3.Route
	require.NoError(t, on.GetAction().GetTypedConfig().UnmarshalTo(&to))
	return to.GetCluster()
}

// Whether clients have one address and many ports, or the other way round, each backend has its share.
func TestBackendsHaveTheirSharesByAddressesAndByPorts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		weights []uint64
		want    map[string]int // of 1,024
	}{
		{[]uint64{1}, map[string]int{"0": 1024}},
		{[]uint64{1, 1}, map[string]int{"0": 512, "1": 512}},
		{[]uint64{70, 30}, map[string]int{"0": 717, "1": 307}},
		{[]uint64{1, 2, 5}, map[string]int{"0": 128, "1": 256, "2": 640}},
		{[]uint64{1_000_000, 1_000_000, 1_000_000, 1_000_000}, map[string]int{"0": 256, "1": 256, "2": 256, "3": 256}},
		{[]uint64{1_000_000, 1}, map[string]int{"0": 1024}},
	} {
		backends := make([]backend, len(c.weights))
		for i, w := range c.weights {
			backends[i] = backend{w, to(fmt.Sprint(i))}
		}
		m := divided(backends).Matcher()
		for _, fixed := range []uint64{0, 0b1011001110, 1<<fineness - 1} {
			byPort, byAddress := map[string]int{}, map[string]int{}
			for other := range uint64(1 << fineness) {
				byPort[drawn{fixed, other}.cluster(t, m)]++
				byAddress[drawn{other, fixed}.cluster(t, m)]++
			}
			require.Equal(t, c.want, byPort, c.weights)
			require.Equal(t, c.want, byAddress, c.weights)
		}
	}
}

// What quotas count: 16 KiB for each further backend.
func TestTheDrawsAreNoLargerThanQuotasCount(t *testing.T) {
	t.Parallel()
	for n := 2; n <= 16; n++ {
		backends := make([]backend, n)
		for i := range backends {
			backends[i] = backend{uint64(i*i + 1), to("outbound|53_udp||" + fmt.Sprint(i))}
		}
		require.Less(t, proto.Size(divided(backends).Matcher()), (n-1)*16384)
	}
}
