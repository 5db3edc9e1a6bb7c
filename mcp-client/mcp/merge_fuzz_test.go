package mcp

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	mcpapi "istio.io/api/mcp/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// FuzzResponses sends arbitrary responses in arbitrary order. The client must not panic, and the
// batches must add up to the client's state.
func FuzzResponses(f *testing.F) {
	for _, seed := range conversations(f) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, conversation []byte) {
		kind, err := kinds.ByName("ServiceEntry")
		require.NoError(t, err)
		c := New(Config{Kinds: []*kinds.Kind{kind}, Name: "fuzz", Protocol: Delta, Log: slog.New(slog.DiscardHandler)})
		given := map[kinds.Key]*kinds.Resource{}
		s := newSession(c, &server{choice: newChoice(Delta)}, &delta{}, func(b kinds.Batch) error {
			for _, change := range b.Changes {
				if change.Resource != nil {
					require.Equal(t, change.Key, change.Resource.Key())
					given[change.Key] = change.Resource
					continue
				}
				require.Contains(t, given, change.Key, "what goes was there")
				delete(given, change.Key)
			}
			return nil
		})
		s.answerTimer, s.holdTimer = time.NewTimer(time.Hour), time.NewTimer(time.Hour)
		require.NoError(t, s.subscribe())
		for _, r := range parse(conversation) {
			if s.handle(r) != nil {
				break
			}
			require.LessOrEqual(t, len(s.outbox.unsent), maxUnsent)
			require.LessOrEqual(t, len(s.reordered), maxReordered)
		}
		s.state.discard()
		require.Equal(t, known(s.state, kind), keysOf(given))
		now, _ := s.state.size(kind)
		require.Len(t, given, now)
	})
}

// known lists the keys that the state has.
func known(s *state, kind *kinds.Kind) map[kinds.Key]bool {
	keys := map[kinds.Key]bool{}
	for _, l := range s.kinds[kind].lists {
		for name := range l.delivered {
			keys[resourceID{kind, name}.key()] = true
		}
	}
	return keys
}

func keysOf(given map[kinds.Key]*kinds.Resource) map[kinds.Key]bool {
	keys := map[kinds.Key]bool{}
	for key := range given {
		keys[key] = true
	}
	return keys
}

// parse splits bytes into responses: the first byte of each is its form, the next two its length.
func parse(conversation []byte) (responses []*response) {
	for len(conversation) > 3 {
		full, n := conversation[0]%2 == 1, int(conversation[1])<<8+int(conversation[2])
		conversation = conversation[3:]
		n = min(n, len(conversation))
		if r := parseOne(full, conversation[:n]); r != nil {
			responses = append(responses, r)
		}
		conversation = conversation[n:]
	}
	return responses
}

func parseOne(full bool, message []byte) *response {
	if full {
		if sotwForm.check(message) != nil {
			return nil
		}
		return readResponse(message, true)
	}
	if deltaForm.check(message) != nil {
		return nil
	}
	return readResponse(message, false)
}

// conversations are responses that various servers could send.
func conversations(f *testing.F) (seeds [][]byte) {
	f.Helper()
	const typeURL, old = "networking.istio.io/v1/ServiceEntry", "networking.istio.io/v1alpha3/ServiceEntry"
	one, other := sampled(f, "default/a", "1"), sampled(f, "/b", "2")
	end, err := anypb.New(&mcpv1.Batch{Revision: 7})
	require.NoError(f, err)
	junk := &anypb.Any{TypeUrl: "type.googleapis.com/istio.mcp.v1alpha1.Resource", Value: []byte{0xff}}
	whole := func(url, nonce string, bodies ...*anypb.Any) []byte {
		return framed(f, 1, &discoveryv3.DiscoveryResponse{TypeUrl: url, Nonce: nonce, Resources: bodies})
	}
	part := func(url, nonce string, removed []string, rs ...*discoveryv3.Resource) []byte {
		m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: url, Nonce: nonce, Resources: rs, RemovedResources: removed}
		m.ControlPlane = &corev3.ControlPlane{Identifier: mcpv1.Identifier + "/fuzz"}
		return framed(f, 0, m)
	}
	a := &discoveryv3.Resource{Name: "default/a", Version: "1", Resource: one}
	mark := &discoveryv3.Resource{Name: "batch", Resource: end}
	for _, said := range [][][]byte{
		{whole(typeURL, "1", one, other), whole(typeURL, "2", other), whole(typeURL, "3")},
		{whole(typeURL, "1"), whole(old, "2", one), whole("networking.istio.io/v1beta1/ServiceEntry", "3", one, other), whole(typeURL, "4", one), whole(typeURL, "5")},
		{whole(typeURL, "1", one, junk), whole(typeURL, "2", junk)},
		{part(typeURL, "1", nil, a), part(mcpv1.BatchTypeURL, "2", nil, mark), part(typeURL, "3", []string{"default/a", "x"}), part(mcpv1.BatchTypeURL, "4", nil, mark)},
		{part(mcpv1.BatchTypeURL, "2", nil, mark), part(typeURL, "1", nil, a), part(typeURL, "1", nil, a), part(mcpv1.BatchTypeURL, "3", nil)},
		{part("example.com/v1/Thing", "1", nil, a), part(mcpv1.StandingTypeURL, "2", nil, mark)},
	} {
		var seed []byte
		for _, message := range said {
			seed = append(seed, message...)
		}
		seeds = append(seeds, seed)
	}
	return seeds
}

func sampled(f *testing.F, name, host string) *anypb.Any {
	f.Helper()
	spec, err := anypb.New(&networking.ServiceEntry{Hosts: []string{host}})
	require.NoError(f, err)
	body, err := anypb.New(&mcpapi.Resource{Metadata: &mcpapi.Metadata{Name: name}, Body: spec})
	require.NoError(f, err)
	return body
}

func framed(f *testing.F, form byte, m proto.Message) []byte {
	f.Helper()
	message, err := proto.Marshal(m)
	require.NoError(f, err)
	require.Less(f, len(message), 1<<16, fmt.Sprint(m))
	return append([]byte{form, byte(len(message) >> 8), byte(len(message))}, message...)
}
