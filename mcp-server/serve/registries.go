package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mcp-server/admin"
	"github.com/pgmesh/pgmesh/mcp-server/identity/secrets"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	"github.com/pgmesh/pgmesh/mcp-server/registries"
	"github.com/pgmesh/pgmesh/mcp-server/writeback"
	"github.com/pgmesh/pgmesh/registry/open"
)

// Registries says where services are kept that are not the mesh's own.
type Registries struct {
	URLs []string // in the order in which they count
	// Wait is how long a starting server waits for those that were never read.
	Wait time.Duration
}

// registryWait is the default of Wait.
const registryWait = 10 * time.Second

// Flags declares the flags.
func (r *Registries) Flags(f *pflag.FlagSet) {
	f.StringArrayVar(&r.URLs, "registry", nil,
		"URL of a registry whose services join the mesh, such as consul://127.0.0.1:8500 or files:///etc/pgmesh/services; can be repeated, and the first counts most. Without --database or --upstream, registries are all that is served")
	f.DurationVar(&r.Wait, "registry-wait", registryWait, "how long a starting server waits for a registry that it has never read, before it serves without it")
}

// joinRegistries opens the registries, and has them join the source.
func (s *server) joinRegistries() error {
	o := s.options
	if len(o.Registries.URLs) == 0 {
		return nil
	}
	opened, err := open.All(o.Registries.URLs, reload.Options{What: "file of a registry", Log: o.Log})
	if err != nil {
		return fmt.Errorf("--registry: %w", err)
	}
	s.joined = registries.New(s.publisher, o.Log, s.metrics, registries.Options{Registries: opened, Wait: o.Registries.Wait})
	if writing := s.joined.Writing(); len(writing) > 0 && o.Database == "" {
		return fmt.Errorf("--registry: %s: %w", writing[0], writeback.ErrNoDatabase)
	}
	return s.checkLending()
}

// checkLending refuses secrets of registries where nobody would be served them, and warns where a
// start without the registry would be one without them.
func (s *server) checkLending() error {
	lending := s.joined.Lending()
	switch {
	case len(lending) == 0:
	case len(s.options.Upstream.Addresses) > 0:
		return fmt.Errorf("--registry: %s: secrets: a relay serves nobody secrets: leave it out, or have a server with a database read the registry", lending[0])
	case s.options.StateDir == "" || !s.options.Sealing.Given():
		s.options.Log.Warn("secrets of the registry are not saved: if this server starts while the registry is away, it has none of them to give, and gateways lose them. Give --state-dir and --secrets-key-file", "registry", lending[0])
	}
	return nil
}

// besides are the registries beside the database; nil without any.
func (s *server) besides() admin.Joined {
	if s.joined == nil {
		return nil
	}
	return s.joined
}

// lent tells of the secrets that registries have for gateways; nil without registries.
func (s *server) lent() secrets.Lent {
	if s.joined == nil {
		return nil
	}
	return s.joined.Secrets
}

func (s *server) aboutRegistries() string {
	if s.joined == nil {
		return ""
	}
	return s.joined.About()
}

// checkBridge checks the options of a server that has nothing but registries.
func (o *Options) checkBridge() error {
	switch {
	case o.Replica != "" || o.Migrate:
		return errors.New("--replica and --migrate are about a database, and this server has registries alone: leave them out, or give --database")
	case len(o.Announce.URLs) > 0:
		return errors.New("--announce announces services of the mesh, and this server has those of registries alone: give --database or --upstream")
	case o.Upstream.JoinTokenFile != "":
		return errors.New("--upstream-join-token-file is for a relay: give --upstream")
	}
	return nil
}

// bridge is the source of a server that serves what registries have, and nothing else: over MCP, and by
// the calls of the admin API that read it.
type bridge struct {
	*server
	opened time.Time
}

// bridgePosition is the position of everything that a bridge serves. It is the same for each bridge,
// so that a client that goes from one to another that has the same is sent nothing.
var bridgePosition = publish.Position{Revision: 1, Mark: "registries"}

// run gives the registries a source without content to join.
func (b *bridge) run(ctx context.Context) error {
	b.views.Show(nil)
	b.publisher.Begin(publish.Source{Name: publish.Registries})
	b.publisher.Replace(publish.Content{Secrets: len(b.joined.Lending()) > 0}, bridgePosition)
	<-ctx.Done()
	return ctx.Err()
}

func (*bridge) places() []string                    { return []string{"registries"} }
func (*bridge) tokens() caller.Tokens               { return caller.NoTokens{} }
func (*bridge) mesh() (mesh, bool)                  { return nil, false }
func (*bridge) drain()                              {}
func (*bridge) standing() (about string, err error) { return "", nil }

// register registers the part of the API that reads what registries have.
func (b *bridge) register(g grpc.ServiceRegistrar) {
	admin.New(admin.Config{
		News: b.publisher.Subscribe, Ready: func() (string, error) { return b.ready(b) }, Source: b.publisher.Source, Clients: b.clients.List,
		Sinks: b.sinksTold, Joined: b.besides(), Link: b.link, Version: program.Version(), Log: b.options.Log,
	}).RegisterBridge(g)
}

// link is up while all registries can be asked.
func (b *bridge) link() admin.Link {
	link := admin.Link{Connected: true, Since: b.opened}
	for _, s := range b.joined.Status() {
		if !s.Stale.IsZero() {
			link.Connected, link.Since = false, s.Stale
		}
	}
	return link
}

// closed refuses what only a server with a database can do.
func (*bridge) closed(_ context.Context, method string) error {
	if slices.Contains(admin.BridgeMethods, method) {
		return nil
	}
	refusal, err := status.New(codes.Unimplemented, "this server has no database to read from or to change: it serves what its registries have. Change services there").
		WithDetails(&errdetails.ErrorInfo{Reason: "BRIDGE", Domain: "pgmesh.io"})
	if err != nil {
		panic(fmt.Sprintf("a status of a message that is linked in: %v", err))
	}
	return refusal.Err()
}
