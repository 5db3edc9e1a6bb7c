package serve

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pgmesh/pgmesh/discovery/identity/jwks"
	"github.com/pgmesh/pgmesh/discovery/identity/trust"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/discovery/register"
	"github.com/pgmesh/pgmesh/internal/dial"
	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/internal/limits"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/monitor"
)

// A discovery either has an identity and speaks TLS with members of the mesh, or is insecure and
// speaks plaintext with anybody. The two differ in their mode, and in the guests that they let in.

// mode is who discovery is.
type mode interface {
	// listens returns how discovery speaks with guests.
	listens() listen.Transport
	// proves returns the identity that discovery shows to mcp-server.
	proves() dial.Identity
	// server returns the connection to mcp-server; nil if there is none.
	server() *grpc.ClientConn
	// guests are those who may connect.
	guests(*push.Engine, *jwks.Keeper, prometheus.Registerer) guests
	close()
}

var (
	_ mode = (*self)(nil)
	_ mode = (*nobody)(nil)
)

// guests are those who connect to discovery: members of the mesh, or anybody.
type guests interface {
	credentials() credentials.TransportCredentials
	// serverOptions returns the options of discovery's gRPC server. Unfinished messages of clients
	// take memory from a budget.
	serverOptions(unfinished *limits.Memory) []grpc.ServerOption
	// register adds the services for these guests alone.
	register(*grpc.Server)
	// machine returns the machine that calls.
	machine(context.Context) (*register.Caller, error)
	// viewer returns the namespace whose proxies the caller may see; "" for all.
	viewer(context.Context) (namespace string, err error)
	// trust knows which guests were revoked.
	trust() trusted
	// ready returns whether discovery is ready; config says whether its configuration is.
	ready(config monitor.Ready) monitor.Ready
	// run does background work until the context ends.
	run(context.Context, *errgroup.Group)
	Shutdown()
	// flush finishes up after the last call.
	flush()
}

var (
	_ guests = (*members)(nil)
	_ guests = anybody{}
)

// trusted tells whom the mesh trusts now.
type trusted interface {
	ConfigureDomain(domain string, aliases []string)
	Watch() (*trust.State, <-chan struct{})
}

// mode chooses the mode that the flags ask for.
func (o *Options) mode(ctx context.Context, metrics prometheus.Registerer) (mode, error) {
	if !o.Plaintext.Allowed {
		return o.identify(ctx, metrics)
	}
	if o.Identity.Given() {
		return nil, fmt.Errorf("%w (--state-dir and --join-token-file are such flags, too)", listen.ErrSecure)
	}
	return o.nobody()
}

// nobody is the mode of an insecure discovery.
type nobody struct{ conn *grpc.ClientConn }

func (o *Options) nobody() (*nobody, error) {
	servers := o.Sources.MCP.Addresses
	if len(servers) == 0 {
		return &nobody{}, nil
	}
	connection, err := o.Sources.MCP.connection(o.Plaintext, dial.Nobody, o.Log)
	if err != nil {
		return nil, err
	}
	conn, err := dialServers(servers, append(connection.DialOptions(), alive)...)
	return &nobody{conn}, err
}

func (*nobody) listens() listen.Transport  { return listen.Insecure }
func (*nobody) proves() dial.Identity      { return dial.Nobody }
func (n *nobody) server() *grpc.ClientConn { return n.conn }

func (*nobody) guests(*push.Engine, *jwks.Keeper, prometheus.Registerer) guests { return anybody{} }

func (n *nobody) close() {
	if n.conn != nil {
		_ = n.conn.Close() // nobody uses it any more
	}
}

// anybody are the guests of an insecure discovery. They are believed, and given no certificates.
type anybody struct{}

func (anybody) credentials() credentials.TransportCredentials { return insecure.NewCredentials() }

func (anybody) serverOptions(unfinished *limits.Memory) []grpc.ServerOption {
	return []grpc.ServerOption{bounded(anybody{}, unfinished)}
}

func (anybody) register(*grpc.Server) {}

func (anybody) machine(ctx context.Context) (*register.Caller, error) { return register.AsItSays(ctx) }

func (anybody) trust() trusted                           { return nobodyTrusted{} }
func (anybody) ready(config monitor.Ready) monitor.Ready { return config }
func (anybody) run(context.Context, *errgroup.Group)     {}
func (anybody) Shutdown()                                {}
func (anybody) flush()                                   {}

// bounded returns the credentials for guests, which bound what a client can do to the server.
func bounded(g guests, unfinished *limits.Memory) grpc.ServerOption {
	return grpc.Creds(panics.Credentials(limits.BoundUnfinished(g.credentials(), unfinished)))
}

// nobodyTrusted is for a discovery without certificates: there is nothing to trust.
type nobodyTrusted struct{}

func (nobodyTrusted) ConfigureDomain(string, []string)       {}
func (nobodyTrusted) Watch() (*trust.State, <-chan struct{}) { return nil, nil }
