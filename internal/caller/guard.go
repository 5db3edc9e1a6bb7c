package caller

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Config says whom a Guard lets in. Without TLS, only Insecure lets callers without a token in.
type Config struct {
	// Insecure lets everyone who comes without TLS do everything. The server must then listen only
	// where all who can reach it may do so.
	Insecure bool
	// AnonymousReaders lets callers over TLS without certificate and token read, as stock istiod
	// does.
	AnonymousReaders bool
	// Allowed returns the SPIFFE ids that may call. Nil allows none.
	Allowed func() AllowList
	// Tokens looks up bearer tokens. Nil knows none.
	Tokens Tokens
	// Member returns the scopes of a member of the mesh, in addition to those of Allowed, or a gRPC
	// status that refuses it. chains are those that TLS verified. Nil knows no members.
	Member func(id spiffeid.ID, chains [][]*x509.Certificate) ([]Scope, error)
	// Public reports whether a method may be called over TLS without authentication. Nil lets none.
	Public func(method string) bool

	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Guard authenticates callers and refuses those that may not call.
type Guard struct {
	cfg Config

	mu   sync.Mutex
	open map[*session]struct{} // the open streams

	refused  *prometheus.CounterVec
	ended    prometheus.Counter
	logLimit rate.Sometimes // a refused caller may retry endlessly
}

// NewGuard returns a guard.
func NewGuard(cfg Config) *Guard {
	if cfg.Allowed == nil {
		cfg.Allowed = func() AllowList { return nil }
	}
	if cfg.Tokens == nil {
		cfg.Tokens = NoTokens{}
	}
	if cfg.Member == nil {
		cfg.Member = func(spiffeid.ID, [][]*x509.Certificate) ([]Scope, error) { return nil, nil }
	}
	if cfg.Public == nil {
		cfg.Public = func(string) bool { return false }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	g := &Guard{
		cfg: cfg, open: map[*session]struct{}{}, logLimit: rate.Sometimes{First: 20, Interval: time.Second},
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgmesh_mcp_server_callers_refused_total", Help: "Calls that were turned away, by what was wrong with who made them: certificate, token, or none of either.",
		}, []string{"reason"}),
		ended: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pgmesh_mcp_server_streams_ended_total", Help: "Streams that were ended because what their callers may do has changed.",
		}),
	}
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(g.refused, g.ended)
	}
	return g
}

// credentials are what a call presented. They hold only the hash of a token.
type credentials struct {
	secure    bool // over TLS
	id        spiffeid.ID
	idErr     error                 // why the certificate has no usable id
	certified bool                  // the client has shown a certificate
	chains    [][]*x509.Certificate // those that TLS verified
	public    bool                  // the method is public
	token     TokenHash
	bearer    bool // there is a token
	address   string
}

// certify adds the client certificate of a connection.
func (c *credentials) certify(state *tls.ConnectionState) {
	c.secure = true
	if len(state.VerifiedChains) == 0 { // ignore an unverified certificate
		return
	}
	c.certified, c.chains = true, state.VerifiedChains
	leaf := state.VerifiedChains[0][0]
	if len(leaf.URIs) != 1 {
		c.idErr = fmt.Errorf("the certificate has %d URIs, where the one SPIFFE id has to be", len(leaf.URIs))
		return
	}
	c.id, c.idErr = spiffeid.FromURI(leaf.URIs[0])
}

// findFunc looks a token up by its hash.
type findFunc func(context.Context, TokenHash) (Token, error)

// exposed reports whether others could read the answers: the call came without TLS and not from
// this machine.
func (c *credentials) exposed() bool {
	ip, err := netip.ParseAddr(c.address)
	return !c.secure && (err != nil || !ip.Unmap().IsLoopback())
}

// identify authenticates a caller. find looks up its token.
func (g *Guard) identify(ctx context.Context, c credentials, find findFunc) (*Caller, error) {
	who, err := g.known(ctx, c, find)
	if err == nil {
		who.exposed = c.exposed()
	}
	return who, err
}

// known authenticates a caller. A token takes precedence over a certificate: a program with a
// certificate may act for a person with a token.
func (g *Guard) known(ctx context.Context, c credentials, find findFunc) (*Caller, error) {
	switch {
	case c.bearer:
		return g.bearer(ctx, c, find)
	case !c.secure && g.cfg.Insecure:
		return Trusted(), nil
	case c.certified:
		return g.certified(c)
	case c.secure && g.cfg.AnonymousReaders:
		return &Caller{identity: Anonymous, scopes: []Scope{{Verb: Read}}}, nil
	case c.secure && c.public:
		return &Caller{identity: Anonymous}, nil
	}
	return nil, g.refuse("none", codes.Unauthenticated, "nobody vouches for the caller: present a client certificate of the server's --client-ca, "+
		"or a bearer token (mcp-client --token-file FILE; mcp-client token create makes one)")
}

func (g *Guard) bearer(ctx context.Context, c credentials, find findFunc) (*Caller, error) {
	t, err := find(ctx, c.token)
	switch {
	case errors.Is(err, ErrUnknownToken):
		return nil, g.refuse("token", codes.Unauthenticated, err.Error())
	case err != nil:
		return nil, status.Errorf(codes.Unavailable, "tokens cannot be checked: %v", err)
	case !t.Revoked.IsZero():
		return nil, g.refuse("token", codes.Unauthenticated, fmt.Sprintf("the token %q was revoked at %s", t.Name, t.Revoked.UTC().Format(time.RFC3339)))
	case !t.Expires.IsZero() && !time.Now().Before(t.Expires):
		return nil, g.refuse("token", codes.Unauthenticated, fmt.Sprintf("the token %q has expired at %s; have a new one made", t.Name, t.Expires.UTC().Format(time.RFC3339)))
	}
	return New(tokenPrefix+t.Name, t.Scopes...), nil
}

func (g *Guard) certified(c credentials) (*Caller, error) {
	if c.idErr != nil {
		return nil, g.refuse("certificate", codes.Unauthenticated, fmt.Sprintf("the client certificate does not say who calls: %v", c.idErr))
	}
	scopes, err := g.cfg.Member(c.id, c.chains)
	if err != nil {
		g.refused.WithLabelValues("certificate").Inc()
		return nil, err
	}
	scopes = slices.Concat(scopes, g.cfg.Allowed().scopesOf(c.id))
	if len(scopes) == 0 && c.public {
		return New(c.id.String()), nil
	}
	if len(scopes) == 0 {
		return nil, g.refuse("certificate", codes.PermissionDenied, fmt.Sprintf("%s may not call here: no --allow names it", c.id))
	}
	return New(c.id.String(), scopes...), nil
}

func (g *Guard) refuse(reason string, code codes.Code, message string) error {
	g.refused.WithLabelValues(reason).Inc()
	return status.Error(code, message)
}

// admit authenticates a new call, and logs a refusal.
func (g *Guard) admit(ctx context.Context, c credentials) (*Caller, error) {
	who, err := g.identify(ctx, c, g.cfg.Tokens.Find)
	if err != nil {
		g.logRefusal(c, err)
		return nil, err
	}
	vouch(ctx, who)
	if c.bearer {
		g.cfg.Tokens.Used(c.token)
	}
	return who, nil
}

func (g *Guard) logRefusal(c credentials, err error) {
	g.logLimit.Do(func() {
		g.cfg.Log.Warn("turned a caller away", "address", c.address, "error", status.Convert(err).Message())
	})
}
