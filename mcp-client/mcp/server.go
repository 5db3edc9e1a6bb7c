package mcp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/kit/retry"
	legacyv1 "github.com/pgmesh/pgmesh/proto/istio/mcp/v1alpha1"
)

// betweenRounds are the pauses between rounds in which no server could be followed.
var betweenRounds = retry.Pauses{First: 50 * time.Millisecond, Longest: 5 * time.Second}

// stableAfter is how long a stream must last before its loss makes the pauses start over: a server
// may send everything and fail, again and again.
const stableAfter = 5 * time.Second

// server is one address and what the client knows of the server there.
type server struct {
	target  string
	conn    *grpc.ClientConn
	choice  choice
	unknown unknownCollections
}

// servers are the addresses to follow in turn, one at a time.
type servers struct {
	all    []*server
	at     int
	tried  int // consecutive failures in this round
	pauses *retry.Backoff
}

func newServers(cfg Config) (*servers, error) {
	if len(cfg.Targets) == 0 {
		return nil, errors.New("follow a configuration server: no address is given")
	}
	s := &servers{pauses: betweenRounds.Backoff()}
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

// pause moves on to the next server and returns how long to wait first. The pauses grow from round
// to round, unless a stream was stable. Within a round they are short, and random so that many
// clients do not move at once.
func (s *servers) pause(good bool) time.Duration {
	if good {
		s.pauses.Reset()
		s.tried = 0
	}
	s.at = (s.at + 1) % len(s.all)
	s.tried++
	if s.tried%len(s.all) != 0 {
		return rand.N(betweenRounds.First)
	}
	return s.pauses.Next()
}

func (s *servers) close() {
	for _, one := range s.all {
		_ = one.conn.Close()
	}
}

// retryNow handles the end of a stream, and reports whether to retry the same server at once in
// another way.
func (s *server) retryNow(err error) bool {
	if s.choice.next == Legacy && errors.Is(err, errUnknownCollection) {
		return true
	}
	return s.choice.retryNow(err)
}

// explain adds context to an Unimplemented error of the last form that was tried.
func (s *server) explain(err error) error {
	switch {
	case status.Code(err) != codes.Unimplemented:
		return err
	case s.choice.wanted == Auto:
		return fmt.Errorf("the server speaks no form of MCP: %w", err)
	}
	return fmt.Errorf("the server does not speak MCP in the form %q, there are others: %w", s.choice.wanted, err)
}

// open opens a stream in the chosen form.
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
