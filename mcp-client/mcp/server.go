package mcp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v5"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	legacyv1 "github.com/pgmesh/pgmesh/proto/istio/mcp/v1alpha1"
)

const (
	firstRetry   = 50 * time.Millisecond
	longestRetry = 5 * time.Second
	// steady is how long a stream has to last for its loss to be a new misfortune and not the old one: a server may send
	// everything and fail, again and again.
	steady = longestRetry
)

// server is one address, and what has been learnt about who answers there.
type server struct {
	target  string
	conn    *grpc.ClientConn
	choice  choice
	unknown unknownCollections
}

// servers are the addresses to follow, one at a time, in turn.
type servers struct {
	all   []*server
	at    int
	tried int // in this round, without success
	retry *backoff.ExponentialBackOff
}

func newServers(cfg Config) (*servers, error) {
	if len(cfg.Targets) == 0 {
		return nil, errors.New("follow a configuration server: no address is given")
	}
	s := &servers{retry: &backoff.ExponentialBackOff{
		InitialInterval: firstRetry, MaxInterval: longestRetry, Multiplier: 1.6, RandomizationFactor: 0.5,
	}}
	for _, target := range cfg.Targets {
		conn, err := grpc.NewClient(target, append(append(dialDefaults(), grpc.WithDisableServiceConfig()), cfg.DialOptions...)...)
		if err != nil {
			s.close()
			return nil, fmt.Errorf("follow the configuration server %s: %w", target, err)
		}
		s.all = append(s.all, &server{target: target, conn: conn, choice: newChoice(cfg.Protocol)})
	}
	return s, nil
}

func (s *servers) current() *server { return s.all[s.at] }

// pause turns to the next server and returns how long to wait before. The waits grow from round to round, unless a stream was
// good for a while. Within a round each is short: only its randomness keeps many clients from moving at once.
func (s *servers) pause(good bool) time.Duration {
	if good {
		s.retry.Reset()
		s.tried = 0
	}
	s.at = (s.at + 1) % len(s.all)
	s.tried++
	if s.tried%len(s.all) != 0 {
		return rand.N(firstRetry)
	}
	return s.retry.NextBackOff()
}

func (s *servers) close() {
	for _, one := range s.all {
		_ = one.conn.Close()
	}
}

// goesOn takes in why a stream ended, and tells whether the server is to be asked again at once, in another way.
func (s *server) goesOn(err error) bool {
	if s.choice.next == Legacy && errors.Is(err, errUnknownCollection) {
		return true
	}
	return s.choice.goesOn(err)
}

// explain makes something of the bare failure of the last form that was tried.
func (s *server) explain(err error) error {
	switch {
	case status.Code(err) != codes.Unimplemented:
		return err
	case s.choice.wanted == Auto:
		return fmt.Errorf("the server speaks no form of MCP: %w", err)
	}
	return fmt.Errorf("the server does not speak MCP in the form %q, there are others: %w", s.choice.wanted, err)
}

// open opens a stream in the form that is chosen.
func (c *Client) open(ctx context.Context, at *server) (wire, error) {
	switch at.choice.next {
	case Legacy:
		g, err := legacyv1.NewResourceSourceClient(at.conn).EstablishResourceStream(ctx)
		return newLegacy(g, c.node.GetId(), &at.unknown), err
	case XDS:
		g, err := discoveryv3.NewAggregatedDiscoveryServiceClient(at.conn).StreamAggregatedResources(ctx)
		return &sotw{stream: g}, err
	}
	g, err := discoveryv3.NewAggregatedDiscoveryServiceClient(at.conn).DeltaAggregatedResources(ctx)
	return &delta{stream: g}, err
}
