// Package admin lets clients read and change the mesh over gRPC. A request that changes something
// is one transaction of the store: all of it is done, or nothing.
//
// A refusal lists everything that is wrong with the resources of a request, each with the place
// where it was written, as typed details that a program can read.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/defaultdeny"
	"github.com/pgmesh/pgmesh/store/feed"
	"github.com/pgmesh/pgmesh/store/history"
	"github.com/pgmesh/pgmesh/store/problems"
	"github.com/pgmesh/pgmesh/store/resources"
)

// Config is what the API needs from its server.
type Config struct {
	// Store and Feed are nil for a server without a database (RegisterStatus, RegisterBridge).
	Store *store.Store
	Feed  *feed.Feed
	// Opened reports whether the database was found fit to use. Nil means always.
	Opened func() bool
	// Link returns the state of the connection to the source.
	Link func() Link
	// News subscribes to the snapshots that this server serves.
	News func() *served.Subscriber
	// Served waits until readers of this server are served a revision. Calls that change something
	// wait for it before they answer, so that whoever reads after the answer finds the change.
	Served func(context.Context, store.Revision) error
	// Ready returns what is missing before clients can be served, and Source where their
	// configuration comes from.
	Ready  func() (about string, err error)
	Source func() publish.Source
	// Clients lists the clients connected over MCP; nil for a server that has none.
	Clients func() []*adminv1.ClientStatus
	// Sinks returns the state of each sink that is dialled; nil for a server that dials none.
	Sinks func() []*adminv1.SinkStatus
	// Joined are the registries beside the database; nil if there are none.
	Joined Joined
	// Keys encrypt secrets before they are stored; None stores them in plain text.
	Keys *seal.Keys
	// Version is the program's.
	Version string
	Log     *slog.Logger
}

// Service is the admin API on top of a store.
type Service struct {
	adminv1.UnimplementedAdminServiceServer

	feed        *feed.Feed
	resources   *resources.Store
	history     *history.Store
	problems    *problems.Store
	defaultDeny *defaultdeny.Store
	news        func() *served.Subscriber
	served      func(context.Context, store.Revision) error
	ready       func() (about string, err error)
	source      func() publish.Source
	clients     func() []*adminv1.ClientStatus
	sinks       func() []*adminv1.SinkStatus
	joined      Joined
	keys        *seal.Keys
	version     string
	opened      func() bool
	link        func() Link
	started     time.Time
	log         *slog.Logger
	done        chan struct{} // closed by Shutdown
}

// New returns the API.
func New(c Config) *Service {
	return &Service{
		feed: c.Feed, resources: resources.New(c.Store), history: history.New(c.Store), problems: problems.New(c.Store), defaultDeny: defaultdeny.New(c.Store),
		news: c.News, served: c.Served, ready: c.Ready, source: c.Source, clients: c.Clients,
		sinks: c.Sinks, joined: c.Joined, keys: c.Keys, version: c.Version, opened: c.Opened, link: c.Link, started: time.Now(), log: c.Log, done: make(chan struct{}),
	}
}

// Shutdown ends every watch, so that a graceful stop does not wait for them. Call it once.
func (s *Service) Shutdown() { close(s.done) }

// Link is the state of a server's connection to its source.
type Link struct {
	Connected bool
	Since     time.Time // when Connected last changed
	Losses    int64
	Standby   bool // the database is a hot standby
}

// Register registers the whole API.
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
		return nil, s.fail(ctx, addPlaces(err, documents))
	}
	return &adminv1.ApplyResponse{
		Revision: applied.Revision, Outcomes: outcomes(keys, applied.Outcomes),
		Warnings: problemsOf(applied.Warnings), OmittedWarnings: int32(applied.Omitted), ConfirmBy: stamp.Of(applied.Deadline),
	}, nil
}

// upsertsOf returns what to store of documents. It encrypts the private values of secrets if there
// is a key.
func (s *Service) upsertsOf(documents []*kinds.Document) (upserts []resources.Upsert, keys []kinds.Key) {
	upserts, keys = upsertsOf(documents)
	for i, d := range documents {
		if secret, is := d.Resource.Spec.Message().(*mcpv1.Secret); is {
			upserts[i].Spec = s.storedSecret(d.Resource.Key(), secret)
		}
	}
	return upserts, keys
}

func upsertsOf(documents []*kinds.Document) (upserts []resources.Upsert, keys []kinds.Key) {
	for _, d := range documents {
		keys = append(keys, d.Resource.Key())
		upserts = append(upserts, resources.Upsert{Key: d.Resource.Key(), Labels: d.Resource.Labels, Annotations: d.Resource.Annotations, Spec: d.Spec})
	}
	return upserts, keys
}

// storedSecret encodes a secret as it is stored.
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
		absent := missingKeys(err)
		switch {
		case len(absent) == 0:
			return nil, s.fail(ctx, err)
		case !req.GetAllowMissing():
			return nil, s.notFound(ctx, absent, keys, "; nothing was deleted")
		}
		// Nothing was deleted. Each round drops at least one key, so the loop ends.
		keys = without(keys, absent)
	}
}

const (
	// maxAttempts is how often a change is tried that conflicts with other transactions.
	maxAttempts = 5
	// servedTimeout bounds how long the answer to a committed change waits until readers are served
	// it.
	servedTimeout = time.Second
)

func (s *Service) change(ctx context.Context, a resources.Apply) (applied resources.Applied, err error) {
	err = s.retryConflicts(ctx, func() (resources.Applied, error) {
		var err error
		applied, err = s.resources.Apply(ctx, a)
		return applied, err
	})
	return applied, err
}

// retryConflicts runs a transaction, again if it conflicts with another one, and waits until its
// change is served.
func (s *Service) retryConflicts(ctx context.Context, run func() (resources.Applied, error)) error {
	var applied resources.Applied
	var err error
	for range maxAttempts {
		applied, err = run()
		if !errors.Is(err, store.ErrConflict) || errors.As(err, new(*store.BlockedError)) { // a blocked change has waited long enough already
			break
		}
	}
	if err == nil && applied.Revision > 0 {
		s.awaitServed(ctx, applied.Revision)
	}
	return err
}

func (s *Service) awaitServed(ctx context.Context, r store.Revision) {
	ctx, cancel := context.WithTimeout(ctx, servedTimeout)
	defer cancel()
	if err := s.served(ctx, r); err != nil {
		s.log.WarnContext(ctx, "a change is committed and not served yet", "revision", r, "error", err)
	}
}
