package serve

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/discovery/identity/issue"
	"github.com/pgmesh/pgmesh/discovery/identity/trust"
	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/membership"
	"github.com/pgmesh/pgmesh/identity/tlsfiles"
	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/internal/limits"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/program"
)

// Identity says who discovery is, whom it trusts, and what it signs machines' certificates with.
type Identity struct {
	JoinTokenFile string
	StateDir      string
	Name          string
	Hosts         []string
	// Lifetime is that of machines' certificates.
	Lifetime time.Duration
	// Authority is the operator's own, in files.
	Authority AuthorityFiles
	// Server has the files of the certificate to serve with, and of the roots that verify machines.
	Server    tlsfiles.Server
	Strangers limits.StrangerOptions
	Renewals  limits.RenewalOptions
}

// AuthorityFiles are the files of an operator's authority.
type AuthorityFiles struct{ Cert, Key, Roots string }

// Flags declares the flags.
func (i *Identity) Flags(f *pflag.FlagSet) {
	f.StringVar(&i.JoinTokenFile, "join-token-file", "",
		"file with the token to become a member of the mesh with, at the first start; mcp-server token create NAME --for discovery makes one")
	f.StringVar(&i.StateDir, "state-dir", program.StateDirectory(), "folder to keep discovery's certificate, its authority and what the mesh trusts in, over restarts; nobody else may read it")
	f.StringVar(&i.Name, "name", "", "what this discovery is called, to tell it from others (default: the host's name)")
	f.StringSliceVar(&i.Hosts, "host", nil, "names and addresses by which machines dial this discovery (default: the host's name, localhost, and the loopback addresses)")
	f.DurationVar(&i.Lifetime, "cert-lifetime", issue.DefaultLifetime, "for how long machines are given certificates; one may ask for less, and the setting certificate_lifetime of the mesh say less")
	f.StringVar(&i.Authority.Cert, "ca-cert", "",
		"PEM file with the certificate of an authority of your own to sign machines' certificates with, and those between it and its root; read again when it changes")
	f.StringVar(&i.Authority.Key, "ca-key", "", "PEM file with the key of --ca-cert")
	f.StringVar(&i.Authority.Roots, "ca-roots", "", "PEM file with the roots that --ca-cert leads to, unless it is one itself")
	i.Server.Flags(f)
	i.Strangers.Flags(f)
	i.Renewals.Flags(f)
}

// errWho says how discovery can get an identity.
var errWho = errors.New("discovery has no certificate to serve with: give --join-token-file and --state-dir to have one from mcp-server " +
	"(mcp-server token create NAME --for discovery makes the token); or --tls-cert, --tls-key and --client-ca; or add --insecure to serve without TLS, on loopback")

// Given reports whether any of it is set. A folder made by systemd does not count.
func (i *Identity) Given() bool {
	return i.JoinTokenFile != "" || i.StateDir != program.StateDirectory() || i.Server.Given() || i.Authority != AuthorityFiles{}
}

// member reports whether discovery gets its membership from mcp-server.
func (i *Identity) member() bool { return !i.Server.Given() }

// check says which flags are missing.
func (i *Identity) check(servers []string) error {
	if (i.Authority.Cert == "") != (i.Authority.Key == "") {
		return errors.New("--ca-cert and --ca-key belong together: give both")
	}
	switch {
	case !i.Given() && i.StateDir == "":
		return errWho
	case i.Server.Given() && i.JoinTokenFile != "":
		return errors.New("--join-token-file and --tls-cert exclude each other: have a certificate from mcp-server, or bring one")
	case i.Server.Given() && i.Server.ClientCA == "":
		return errors.New("--tls-cert without --client-ca: name the authorities that vouch for machines, which have to show certificates")
	case i.Server.Given():
		return nil
	case i.StateDir == "":
		return errors.New("--state-dir: name a folder that discovery's certificate is kept in, or it would need another token at each start")
	case len(servers) == 0:
		return errors.New("without an mcp-server (--mcp) nobody gives discovery a certificate: bring one with --tls-cert, --tls-key and --client-ca")
	}
	return nil
}

// names returns the name of discovery, and the hosts by which others dial it.
func (i *Identity) names() (name string, hosts []string) {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "localhost"
	}
	name, hosts = cmp.Or(i.Name, host), i.Hosts
	if len(hosts) == 0 {
		hosts = []string{host, "localhost", "127.0.0.1", "::1"}
	}
	return name, hosts
}

// self is who discovery is: by its membership, or by files.
type self struct {
	membership *membership.Membership // nil with files
	files      *tlsfiles.ServerFiles
	roots      *reload.Value[[]byte] // brought by the operator
	own        *reload.Value[*authority.Authority]
	servers    []string
	options    *Identity
	changed    chan struct{}    // receives when the operator's files have changed
	conn       *grpc.ClientConn // to mcp-server; nil if there is none
	log        *slog.Logger
}

// identify finds out who discovery is, and joins the mesh if it has not yet.
func (o *Options) identify(ctx context.Context, metrics prometheus.Registerer) (*self, error) {
	servers := o.Sources.MCP.Addresses
	if err := o.Identity.check(servers); err != nil {
		return nil, err
	}
	s := &self{servers: servers, options: &o.Identity, log: o.Log}
	if o.Identity.member() {
		if err := s.become(ctx, metrics); err != nil {
			return nil, err
		}
	}
	if err := s.load(metrics); err != nil || len(servers) == 0 {
		return s, err
	}
	connection, err := o.Sources.MCP.connection(listen.Plaintext{}, s.proves(), o.Log)
	if err == nil {
		s.conn, err = dialServers(servers, connection.DialOptions()...)
	}
	return s, err
}

func (*self) listens() listen.Transport { return listen.Secure }

func (s *self) server() *grpc.ClientConn { return s.conn }

func (s *self) close() {
	if s.conn != nil {
		_ = s.conn.Close() // nobody uses it any more
	}
}

// certificate is the TLS configuration for clients. They may show any certificate: a refused one is
// explained.
func (s *self) certificate() *tls.Config {
	base := func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		return s.files.Config("h2").GetConfigForClient(hello)
	}
	if s.membership != nil {
		base = s.membership.Server(tls.RequestClientCert, "h2").GetConfigForClient
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		c, err := base(hello)
		if err != nil {
			return nil, err
		}
		c = c.Clone()
		c.ClientAuth, c.ClientCAs, c.VerifyConnection = tls.RequestClientCert, nil, nil // package admit judges the certificate
		return c, nil
	}}
}

// load reads the operator's files.
func (s *self) load(metrics prometheus.Registerer) error {
	s.changed = make(chan struct{}, 1)
	i, how := s.options, reload.Options{Log: s.log, Metrics: reload.NewMetrics(metrics, reload.Names{Unusable: "pgmesh_discovery_files_unusable", Loaded: "pgmesh_discovery_files_loaded_total"}), Changed: func() {
		select {
		case s.changed <- struct{}{}:
		default: // whoever is woken looks at all
		}
	}}
	var err error
	if i.Server.Given() {
		if s.files, err = i.Server.Load(how, metrics, "pgmesh_discovery_tls_not_after_seconds"); err != nil {
			return err
		}
		how.What = "roots"
		paths := []string{i.Server.ClientCA}
		if i.Authority.Roots != "" {
			paths = append(paths, i.Authority.Roots)
		}
		if s.roots, err = reload.Load(how, joinRoots, paths...); err != nil {
			return err
		}
	}
	if i.Authority.Cert == "" {
		return nil
	}
	how.What = "authority"
	paths := []string{i.Authority.Cert, i.Authority.Key}
	if i.Authority.Roots != "" {
		paths = append(paths, i.Authority.Roots)
	}
	s.own, err = reload.Load(how, func(contents [][]byte) (*authority.Authority, error) {
		return authority.Load(contents[0], contents[1], append(contents, nil)[2])
	}, paths...)
	return err
}

// joinRoots joins the roots of several files.
func joinRoots(contents [][]byte) ([]byte, error) {
	var all []byte
	for _, content := range contents {
		roots, err := authority.ParseCertificates(content)
		if err != nil {
			return nil, err
		}
		all = append(all, authority.EncodeCertificates(roots...)...)
	}
	return all, nil
}

// keeper returns what knows what is trusted.
func (s *self) keeper(metrics prometheus.Registerer) *trust.Keeper {
	o := trust.Options{Membership: s.membership, Folder: s.options.StateDir, Log: s.log, Metrics: metrics}
	if s.conn != nil {
		o.Server = s.conn
	}
	if s.roots != nil {
		o.Roots = s.roots.Get
	}
	if s.own != nil {
		o.Own = s.own.Get
	}
	return trust.New(o)
}

// run keeps all of it up to date until the context ends.
func (s *self) run(ctx context.Context, g *errgroup.Group) {
	if s.membership != nil {
		g.Go(func() error { return s.membership.Run(ctx, s.enroll(s.conn, "")) })
	}
	if s.files != nil {
		g.Go(func() error { return s.files.Run(ctx) })
		g.Go(func() error { return s.roots.Run(ctx) })
	}
	if s.own != nil {
		g.Go(func() error { return s.own.Run(ctx) })
	}
}

// listenOn is the address to serve on if none is given.
func listenOn(given string, t listen.Transport) string {
	switch {
	case given != "":
		return given
	case t == listen.Insecure:
		return "127.0.0.1:15010"
	default:
		return ":15012"
	}
}

// listenXDS opens the socket for xDS.
func (o *Options) listenXDS(t listen.Transport) (net.Listener, error) {
	return o.Plaintext.Server("listen", listenOn(o.Listen, t), t)
}
