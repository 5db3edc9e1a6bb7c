package serve

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/identity/tlsfiles"
	"github.com/pgmesh/pgmesh/internal/access"
	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/internal/limits"
)

// Security says who may call over TLS, and how much a caller may ask for.
type Security struct {
	TLS              tlsfiles.Server
	Allow            []string // rules
	AllowFile        string   // more rules, in a file
	AnonymousReaders bool
	Limits           limits.Options
}

// Flags declares the flags.
func (s *Security) Flags(f *pflag.FlagSet) {
	s.TLS.Flags(f)
	f.StringArrayVar(&s.Allow, "allow", nil, "with --client-ca: a SPIFFE id that may call, and what it may do: spiffe://mesh/discovery, spiffe://mesh/ns/*/sa/*, "+
		"spiffe://mesh/ops/*=write:shop;read. Without scopes it may read. May be given more than once")
	f.StringVar(&s.AllowFile, "allow-file", "", "file with more of what --allow takes, one a line; it is read again when it changes")
	f.BoolVar(&s.AnonymousReaders, "anonymous-readers", false,
		"let those read who come over TLS with neither a certificate nor a token, as stock istiod does; mesh.readers may show them less")
	s.Limits.Flags(f)
}

func (s *Security) check(ownAuthority bool) error {
	listed := len(s.Allow) > 0 || s.AllowFile != ""
	switch {
	case ownAuthority: // it vouches for those that the rules list
		return nil
	case !s.TLS.Given() && (listed || s.AnonymousReaders):
		return errors.New("--allow, --allow-file and --anonymous-readers are about callers over TLS: give --tls-cert and --tls-key too")
	case s.TLS.ClientCA != "" && !listed:
		return errors.New("--client-ca says who vouches for callers, and nothing who may call: add --allow, " +
			"such as --allow 'spiffe://your.trust.domain/*' for everybody of a trust domain")
	case s.TLS.ClientCA == "" && listed:
		return errors.New("--allow names certificates that nobody vouches for: add --client-ca")
	}
	return nil
}

// door is what calls pass first: TLS or plaintext, limits, and the identity of the caller.
type door struct {
	limits  *limits.Limits
	guard   *caller.Guard
	shown   certificate
	allowed *reload.Value[caller.AllowList] // nil without a file
}

// door admits those that the options name, and the bearers of tokens.
func (o Options) door(from source, metrics prometheus.Registerer) (*door, error) {
	s, d := o.Security, &door{limits: limits.New(o.Security.Limits, metrics)}
	rules, err := caller.ParseRules(s.Allow)
	if err != nil {
		return nil, errors.Join(errors.New("--allow"), err)
	}
	files := reload.Options{Log: o.Log, Metrics: reload.NewMetrics(metrics, reload.Names{Unusable: "pgmesh_mcp_server_files_unusable", Loaded: "pgmesh_mcp_server_files_loaded_total"})}
	if d.shown, err = o.shown(from, files, metrics); err != nil {
		return nil, err
	}
	if s.AllowFile != "" {
		files.What, files.Changed = "allow list", func() { d.guard.Recheck() }
		d.allowed, err = reload.Load(files, func(contents [][]byte) (caller.AllowList, error) { return caller.ParseAllowFile(contents[0]) }, s.AllowFile)
		if err != nil {
			return nil, err
		}
	}
	cfg := caller.Config{
		Insecure: o.Plaintext.Allowed, AnonymousReaders: s.AnonymousReaders, Tokens: from.tokens(), Metrics: metrics, Log: o.Log,
		Allowed: func() caller.AllowList {
			if d.allowed == nil {
				return rules
			}
			return slices.Concat(rules, d.allowed.Get())
		},
	}
	if m, known := from.mesh(); known {
		cfg.Member, cfg.Public, d.limits.Exempt = m.Member, access.OpenToStrangers, m.Server
	}
	d.guard = caller.NewGuard(cfg)
	return d, nil
}

// shown returns the certificate that the options name.
func (o Options) shown(from source, how reload.Options, metrics prometheus.Registerer) (certificate, error) {
	switch {
	case o.Security.TLS.Given():
		files, err := o.Security.TLS.Load(how, metrics, "pgmesh_mcp_server_tls_not_after_seconds")
		return fileCertificate{files}, err
	case o.ownCertificate():
		m, _ := from.mesh() // which has given it
		return meshCertificate{m}, nil
	}
	return noCertificate{}, nil
}

// run watches the files, and whether open streams may stay, until the context ends.
func (d *door) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.guard.Run(ctx) })
	g.Go(func() error { return d.shown.run(ctx) })
	if d.allowed != nil {
		g.Go(func() error { return d.allowed.Run(ctx) })
	}
	return g.Wait()
}

// options put a gRPC server behind the door. What clients have sent in part takes memory of a
// budget.
func (d *door) options(unfinished *limits.Memory) []grpc.ServerOption {
	options := append(d.limits.ServerOptions(), grpc.ChainUnaryInterceptor(d.guard.Unary), grpc.ChainStreamInterceptor(d.guard.Stream))
	shown, more := d.shown.grpc(d.guard)
	return append(append(options, more...), grpc.Creds(panics.Credentials(limits.BoundUnfinished(shown, unfinished))))
}

// web puts a listener and a handler of HTTP behind the door.
func (d *door) web(l net.Listener, h http.Handler) (net.Listener, http.Handler) {
	return d.shown.http(l), d.limits.Handler(d.guard.Handler(h))
}
