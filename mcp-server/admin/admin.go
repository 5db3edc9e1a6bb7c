// Package admin lets clients read and change the mesh over gRPC. A request that changes something is one transaction of the store, all of
// it or nothing.
//
// What is wrong with the resources of a request is told in full and at once, with the place that each was written at, in a
// form that the caller's program can rebuild.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/stamp"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	"github.com/pgmesh/pgmesh/mcp-server/seal"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
	"github.com/pgmesh/pgmesh/store"
)

// Config is what the API needs of the server that it is part of.
type Config struct {
	// Store is nil for a server without a database, of which nothing but the status can be asked.
	Store *store.Store
	// Opened reports whether the database was found fit to use. Nil means that it always is.
	Opened func() bool
	// Link tells how the connection to the source fares.
	Link func() Link
	// News returns the snapshots that this server serves.
	News func() *ads.Subscriber
	// Served waits until readers of this server are served a revision: a change is answered then, so that whoever reads after it finds it.
	Served func(context.Context, store.Revision) error
	// Ready tells what is missing before clients can be served, and Source where what they are served is from.
	Ready  func() (about string, err error)
	Source func() publish.Source
	// Clients lists who is connected over MCP; nil where nobody is.
	Clients func() []*adminv1.ClientStatus
	// Sinks tells what has come of dialling sinks; nil where none can be.
	Sinks func() []*adminv1.SinkStatus
	// Keys encrypt secrets before they come to the database; nil leaves them as they are.
	Keys *seal.Keys
	// Version is that of the program.
	Version string
	Log     *slog.Logger
}

// Service is the admin API on top of a store.
type Service struct {
	adminv1.UnimplementedAdminServiceServer

	store   *store.Store
	news    func() *ads.Subscriber
	served  func(context.Context, store.Revision) error
	ready   func() (about string, err error)
	source  func() publish.Source
	clients func() []*adminv1.ClientStatus
	sinks   func() []*adminv1.SinkStatus
	keys    *seal.Keys
	version string
	opened  func() bool
	link    func() Link
	started time.Time
	log     *slog.Logger
	done    chan struct{}
}

// New returns the API.
func New(c Config) *Service {
	return &Service{
		store: c.Store, news: c.News, served: c.Served, ready: c.Ready, source: c.Source, clients: c.Clients,
		sinks: c.Sinks, keys: c.Keys, version: c.Version, opened: c.Opened, link: c.Link, started: time.Now(), log: c.Log, done: make(chan struct{}),
	}
}

// Shutdown ends every watch, so that a graceful stop need not wait for watchers that never leave. It must be called once.
func (s *Service) Shutdown() { close(s.done) }

// Link is how the connection of a server to its source fares.
type Link struct {
	Connected bool
	Since     time.Time // since when that is so
	Losses    int64
	Standby   bool // it is a hot standby
}

// statusOnly is the API of a server without a database.
type statusOnly struct {
	adminv1.UnimplementedAdminServiceServer

	of *Service
}

// Status is that of the whole API.
func (s statusOnly) Status(ctx context.Context, req *adminv1.StatusRequest) (*adminv1.StatusResponse, error) {
	return s.of.Status(ctx, req)
}

// RegisterStatus adds the status alone to a server.
func (s *Service) RegisterStatus(r grpc.ServiceRegistrar) {
	adminv1.RegisterAdminServiceServer(r, statusOnly{of: s})
}

// Register adds the API to a server.
func (s *Service) Register(r grpc.ServiceRegistrar) { adminv1.RegisterAdminServiceServer(r, s) }

// Apply creates or replaces the resources of the request.
func (s *Service) Apply(ctx context.Context, req *adminv1.ApplyRequest) (*adminv1.ApplyResponse, error) {
	var f fields
	change := f.origin(ctx, req).change(req.GetDryRun())
	change.Expected, change.Confirm = f.expected(req.GetExpected()), f.confirm(req.GetConfirmWithin())
	if err := f.err(); err != nil {
		return nil, err
	}
	documents, err := readAs(withSecrets, req.GetDocuments())
	if err == nil && req.GetExpectResourceVersions() {
		err = expectVersions(&change, documents)
	}
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	upserts, keys := s.upsertsOf(documents)
	if err := require(ctx, caller.Write, keys...); err != nil {
		return nil, err
	}
	change.Upserts = upserts
	applied, err := s.change(ctx, change)
	if err != nil {
		return nil, s.fail(ctx, placed(err, documents))
	}
	return &adminv1.ApplyResponse{
		Revision: applied.Revision, Outcomes: outcomes(keys, applied.Outcomes),
		Warnings: problemsOf(applied.Warnings), OmittedWarnings: int32(applied.Omitted), ConfirmBy: stamp.Of(applied.Deadline),
	}, nil
}

// upsertsOf is what is to be stored of documents, with the private values of secrets encrypted if there is a key.
func (s *Service) upsertsOf(documents []*kinds.Document) (upserts []store.Upsert, keys []kinds.Key) {
	upserts, keys = upsertsOf(documents)
	for i, d := range documents {
		if secret, is := d.Resource.Spec.Message().(*mcpv1.Secret); is {
			upserts[i].Spec = s.storedSecret(d.Resource.Key(), secret)
		}
	}
	return upserts, keys
}

func upsertsOf(documents []*kinds.Document) (upserts []store.Upsert, keys []kinds.Key) {
	for _, d := range documents {
		keys = append(keys, d.Resource.Key())
		upserts = append(upserts, store.Upsert{Key: d.Resource.Key(), Labels: d.Resource.Labels, Annotations: d.Resource.Annotations, Spec: d.Spec})
	}
	return upserts, keys
}

// storedSecret is a secret as it comes to the database.
func (s *Service) storedSecret(k kinds.Key, secret *mcpv1.Secret) json.RawMessage {
	spec, err := json.Marshal(map[string]any{
		"type": secret.GetType(), "data": s.keys.Store(k.Namespace, k.Name, secret.GetData()), "serviceAccounts": secret.GetServiceAccounts(),
	})
	if err != nil {
		panic("encode a secret: " + err.Error()) // strings always encode
	}
	return spec
}

// Delete removes the resources that the request names.
func (s *Service) Delete(ctx context.Context, req *adminv1.DeleteRequest) (*adminv1.DeleteResponse, error) {
	var f fields
	change := f.origin(ctx, req).change(req.GetDryRun())
	change.Expected, change.Confirm = f.expected(req.GetExpected()), f.confirm(req.GetConfirmWithin())
	if err := f.err(); err != nil {
		return nil, err
	}
	refs := req.GetResources()
	if req.GetResource() != nil {
		refs = append(refs, req.GetResource())
	}
	keys, err := resolve(refs)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	if err := require(ctx, caller.Write, keys...); err != nil {
		return nil, err
	}
	for {
		change.Deletes = keys
		applied, err := s.change(ctx, change)
		if err == nil {
			return &adminv1.DeleteResponse{
				Revision: applied.Revision, Outcomes: outcomes(keys, applied.Outcomes),
				Warnings: problemsOf(applied.Warnings), OmittedWarnings: int32(applied.Omitted), ConfirmBy: stamp.Of(applied.Deadline),
			}, nil
		}
		absent := missing(err)
		switch {
		case len(absent) == 0:
			return nil, s.fail(ctx, err)
		case !req.GetAllowMissing():
			return nil, s.notFound(ctx, absent, "; nothing was deleted")
		}
		// Nothing was deleted. Each round leaves out at least one, so there is an end to them.
		keys = without(keys, absent)
	}
}

const (
	// conflicts is how often a change that another transaction stood in the way of is tried.
	conflicts = 5
	// serveWithin bounds how long the answer to a change that is committed waits for readers to be served it.
	serveWithin = time.Second
)

func (s *Service) change(ctx context.Context, a store.Apply) (applied store.Applied, err error) {
	err = s.untilDone(ctx, func() (store.Applied, error) {
		var err error
		applied, err = s.store.Apply(ctx, a)
		return applied, err
	})
	return applied, err
}

// untilDone runs a transaction again that met another one, and waits until what it changed is served.
func (s *Service) untilDone(ctx context.Context, run func() (store.Applied, error)) error {
	var applied store.Applied
	var err error
	for range conflicts {
		applied, err = run()
		if !errors.Is(err, store.ErrConflict) || errors.As(err, new(*store.BlockedError)) { // which has waited for long enough
			break
		}
	}
	if err == nil && applied.Revision > 0 {
		s.awaitServed(ctx, applied.Revision)
	}
	return err
}

func (s *Service) awaitServed(ctx context.Context, r store.Revision) {
	ctx, cancel := context.WithTimeout(ctx, serveWithin)
	defer cancel()
	if err := s.served(ctx, r); err != nil {
		s.log.WarnContext(ctx, "a change is committed and not served yet", "revision", r, "error", err)
	}
}
