package mcp_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/kinds"
)

// manners are the differences between ADS servers.
type manners struct {
	identifier string
	// stamp makes the version and the nonce of the n-th response, which belongs to the given push.
	stamp func(push, n int) (version, nonce string)
	// admit checks a stream's first request.
	admit func(ctx context.Context, node *corev3.Node) error
	// ignores lists types that are never answered.
	ignores []string
	// delta serves the incremental form, if set.
	delta func(*peer, discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error
}

// peer is a foreign ADS server. It knows types by their exact names, answers all others with
// nothing, and on any change sends all of every type that a client has asked for.
type peer struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	*endpoint
	manners manners
	nacks   chan *discoveryv3.DiscoveryRequest

	mu      sync.Mutex
	lists   map[string][]*anypb.Any
	pushes  int
	streams map[*peerStream]bool
	opened  struct{ sotw, delta int }
}

func newPeer(t *testing.T, m manners) *peer {
	p := &peer{
		manners: m, nacks: make(chan *discoveryv3.DiscoveryRequest, 100),
		lists: map[string][]*anypb.Any{}, streams: map[*peerStream]bool{},
	}
	p.endpoint = listen(t, func(g *grpc.Server) { discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, p) })
	return p
}

// peerStream is one client's stream.
type peerStream struct {
	discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer
	watched []string
	nonces  map[string]string // the last, by type
	sent    int
	over    bool
	end     chan error
}

func (p *peer) StreamAggregatedResources(g discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	s := &peerStream{
		AggregatedDiscoveryService_StreamAggregatedResourcesServer: g, nonces: map[string]string{}, end: make(chan error, 2),
	}
	p.mu.Lock()
	p.opened.sotw++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		s.over = true
		delete(p.streams, s)
	}()
	go func() { s.end <- p.listen(s) }() // which gRPC ends with this
	return <-s.end
}

func (p *peer) DeltaAggregatedResources(g discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	p.mu.Lock()
	p.opened.delta++
	p.mu.Unlock()
	if p.manners.delta == nil {
		return status.Error(codes.Unimplemented, "not implemented")
	}
	return p.manners.delta(p, g)
}

// listen answers the requests of a stream.
func (p *peer) listen(s *peerStream) error {
	for first := true; ; first = false {
		r, err := s.Recv()
		if err != nil {
			return err
		}
		if first && p.manners.admit != nil {
			if err := p.manners.admit(s.Context(), r.GetNode()); err != nil {
				return err
			}
		}
		if err := p.hear(s, r); err != nil {
			return err
		}
	}
}

func (p *peer) hear(s *peerStream, r *discoveryv3.DiscoveryRequest) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.over {
		return nil
	}
	p.streams[s] = true
	last, known := s.nonces[r.GetTypeUrl()]
	switch {
	case !known: // whatever its nonce
		s.watched, s.nonces[r.GetTypeUrl()] = append(s.watched, r.GetTypeUrl()), ""
		return p.send(s, r.GetTypeUrl())
	case r.GetResponseNonce() == last && r.GetErrorDetail() != nil: // recorded, and nothing is sent again
		p.nacks <- r
	}
	return nil
}

// send sends all of a type.
func (p *peer) send(s *peerStream, typeURL string) error {
	if slices.Contains(p.manners.ignores, typeURL) {
		return nil
	}
	s.sent++
	version, nonce := p.manners.stamp(p.pushes, s.sent)
	s.nonces[typeURL] = nonce
	return s.Send(&discoveryv3.DiscoveryResponse{
		TypeUrl: typeURL, VersionInfo: version, Nonce: nonce, Resources: p.lists[typeURL],
		ControlPlane: &corev3.ControlPlane{Identifier: p.manners.identifier},
	})
}

// serve sets the resources of a type and pushes everything.
func (p *peer) serve(typeURL string, bodies ...*anypb.Any) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lists[typeURL] = bodies
	p.push()
}

func (p *peer) push() {
	p.t.Helper()
	p.pushes++
	for s := range p.streams {
		for _, typeURL := range s.watched {
			_ = p.send(s, typeURL) // a stream may have ended meanwhile
		}
	}
}

// replace ends all streams and starts with other content, as after an upgrade.
func (p *peer) replace(lists map[string][]*anypb.Any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lists = lists
	p.pushes++
	for s := range p.streams {
		s.over = true
		delete(p.streams, s)
		s.end <- status.Error(codes.Unavailable, "max connection age reached")
	}
}

// forms counts the streams of each form.
func (p *peer) forms() (sotw, delta int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened.sotw, p.opened.delta
}

// bodies are the envelopes of resources, without versions.
func bodies(t *testing.T, rs ...*kinds.Resource) []*anypb.Any {
	t.Helper()
	made := make([]*anypb.Any, len(rs))
	for i, r := range rs {
		made[i] = envelope(t, r, "")
	}
	return made
}
