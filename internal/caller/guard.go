package caller

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Config says whom a Guard lets in.
type Config struct {
	// Insecure lets everybody in who comes without TLS, to do everything: the server listens where only such come who may.
	Insecure bool
	// AnonymousReaders lets those read who come over TLS with neither a certificate nor a token, as stock istiod does.
	AnonymousReaders bool
	// Allowed returns the SPIFFE ids that may call. Nil allows none.
	Allowed func() AllowList
	// Tokens knows the bearer tokens. Nil knows none.
	Tokens Tokens
	// Member says what somebody may do because of who vouches for the certificate, beside what Allowed says, or why nothing: a status.
	// Chains are those that TLS has verified. Nil knows of nobody.
	Member func(id spiffeid.ID, chains [][]*x509.Certificate) ([]Scope, error)
	// Public tells which methods may be called by those that come over TLS and that nobody vouches for. Nil is none.
	Public func(method string) bool

	Metrics prometheus.Registerer // names begin with the program's
	Log     *slog.Logger
}

// Guard finds out who calls, and turns those away who may not.
type Guard struct {
	cfg Config

	mu   sync.Mutex
	open map[*session]struct{}

	refused *prometheus.CounterVec
	ended   prometheus.Counter
	tell    rate.Sometimes // who is turned away may try again and again
}

// NewGuard returns a guard.
func NewGuard(cfg Config) *Guard {
	if cfg.Allowed == nil {
		cfg.Allowed = func() AllowList { return nil }
	}
	if cfg.Tokens == nil {
		cfg.Tokens = NoTokens{}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	g := &Guard{
		cfg: cfg, open: map[*session]struct{}{}, tell: rate.Sometimes{First: 20, Interval: time.Second},
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "callers_refused_total", Help: "Calls that were turned away, by what was wrong with who made them: certificate, token, or none of either.",
		}, []string{"reason"}),
		ended: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "streams_ended_total", Help: "Streams that were ended because what their callers may do has changed.",
		}),
	}
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(g.refused, g.ended)
	}
	return g
}

// credentials are what a call came with. Of a token only the hash is kept.
type credentials struct {
	secure    bool
	id        spiffeid.ID
	idErr     error // why a certificate names nobody
	certified bool
	chains    [][]*x509.Certificate
	public    bool // what is called is for everybody over TLS
	token     TokenHash
	bearer    bool
	address   string
}

// certify takes over what the certificate of a connection says.
func (c *credentials) certify(state *tls.ConnectionState) {
	c.secure = true
	if len(state.VerifiedChains) == 0 { // what was not verified counts for nothing
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

// find looks a token up.
type find func(context.Context, TokenHash) (Token, error)

// exposed tells whether others may read what the caller is told: it comes without TLS, and not from this machine.
func (c *credentials) exposed() bool {
	ip, err := netip.ParseAddr(c.address)
	return !c.secure && (err != nil || !ip.Unmap().IsLoopback())
}

// identify tells who calls.
func (g *Guard) identify(ctx context.Context, c credentials, look find) (*Caller, error) {
	who, err := g.known(ctx, c, look)
	if err == nil {
		who.exposed = c.exposed()
	}
	return who, err
}

// known finds out who calls. A token counts before a certificate: a program that holds a certificate may act for a person.
func (g *Guard) known(ctx context.Context, c credentials, look find) (*Caller, error) {
	switch {
	case c.bearer:
		return g.bearer(ctx, c, look)
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

func (g *Guard) bearer(ctx context.Context, c credentials, look find) (*Caller, error) {
	t, err := look(ctx, c.token)
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
	scopes := g.cfg.Allowed().scopesOf(c.id)
	if g.cfg.Member != nil {
		own, err := g.cfg.Member(c.id, c.chains)
		if err != nil {
			g.refused.WithLabelValues("certificate").Inc()
			return nil, err
		}
		scopes = append(own, scopes...)
	}
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

// admit identifies a caller for the first time.
func (g *Guard) admit(ctx context.Context, c credentials) (*Caller, error) {
	who, err := g.identify(ctx, c, g.cfg.Tokens.Find)
	if err != nil {
		g.turnedAway(c, err)
		return nil, err
	}
	vouch(ctx, who)
	if c.bearer {
		g.cfg.Tokens.Used(c.token)
	}
	return who, nil
}

func (g *Guard) turnedAway(c credentials, err error) {
	g.tell.Do(func() {
		g.cfg.Log.Warn("turned a caller away", "address", c.address, "error", status.Convert(err).Message())
	})
}
