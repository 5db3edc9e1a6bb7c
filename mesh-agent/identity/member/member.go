// Package member is this machine as a member of the mesh. It is one by a certificate of the mesh,
// which it joins for and has renewed, or by files of its own that somebody else renews.
package member

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/identity/membership"
	"github.com/pgmesh/pgmesh/mesh-agent/host/statedir"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/join"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/sds"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/upstream"
)

// Options say how this machine gets its identity.
type Options struct {
	Insecure   bool // it has no identity
	Files      Files
	Credential join.Credential // what it joins with, if it is no member yet

	Folder  *statedir.Folder
	Servers func() ([]string, error) // the addresses of discovery
	Log     *slog.Logger
	Metrics prometheus.Registerer // may be nil
}

// Flags declares the flags that say who this machine is.
func (o *Options) Flags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.Insecure, "insecure", false, "have no identity, and speak plaintext with discovery; for a demo")
	o.Files.Flags(flags)
	o.Credential.Flags(flags)
}

// Secrets returns the files that hold secrets, and the secrets that flags or variables hold
// themselves.
func (o *Options) Secrets() (files, secrets []string) {
	files, secrets = o.Credential.Secrets()
	if o.Files.key != "" {
		files = append(files, o.Files.key)
	}
	return files, secrets
}

// Source is where a machine has its identity from.
type Source string

const (
	Insecure  Source = "none"  // it has none, and speaks plaintext
	FromFiles Source = "files" // another issuer than the mesh certifies it
	FromMesh  Source = "mesh"  // it has joined
)

// Member is this machine as a member of the mesh, or as nobody if its Source is Insecure.
type Member struct {
	identity.Workload

	Source Source

	files Files // if the source is FromFiles

	// These are set if the source is FromMesh.
	membership *membership.Membership
	alias      string // what metrics call it; "" until that is known
	until      time.Time
	servers    []string
	renew      func(u *upstream.Upstream, alias string) membership.Ask
}

// Open returns this machine's identity. A machine that is no member yet joins if there is a
// credential. It keeps the options.
func Open(ctx context.Context, o *Options) (*Member, error) {
	switch {
	case o.Insecure && (o.Files.given() || o.Credential.Given()):
		return nil, errors.New("--insecure and the flags of a certificate or a token exclude each other: choose one way to speak with discovery")
	case o.Insecure:
		return &Member{Source: Insecure}, nil
	case o.Files.given():
		w, err := o.Files.workload()
		return &Member{Workload: w, Source: FromFiles, files: o.Files}, err
	}
	return o.enroll(ctx)
}

func (o *Options) enrolled(m *membership.Membership, servers []string) *Member {
	state := m.Current()
	w, _ := identity.WorkloadOf(state.ID)
	return &Member{Workload: w, Source: FromMesh, until: state.NotAfter(), membership: m, servers: servers, renew: o.renewal(m, servers)}
}

// renewal returns how to renew: with the present certificate, or with the token if that has expired
// and there is a token.
func (o *Options) renewal(m *membership.Membership, servers []string) func(*upstream.Upstream, string) membership.Ask {
	return func(u *upstream.Upstream, alias string) membership.Ask {
		return func(ctx context.Context, csr []byte) (membership.Granted, error) {
			if time.Now().Before(m.Current().NotAfter()) || !o.Credential.Given() {
				return join.ByCertificate(u, alias)(ctx, csr)
			}
			ask, err := o.Credential.Ask(ctx, servers, o.Log)
			if err != nil {
				return membership.Granted{}, err
			}
			return ask(ctx, csr)
		}
	}
}

// Keep renews the identity and passes it to Envoy until the context ends. The function that it
// returns waits for the end.
func (m *Member) Keep(ctx context.Context, secrets *sds.Server, u *upstream.Upstream, log *slog.Logger) (wait func() error, err error) {
	if m.Source == Insecure {
		return func() error { return nil }, nil
	}
	if m.Source == FromFiles {
		if err := secrets.ServeFiles(m.files.cert, m.files.key, m.files.roots); err != nil {
			return nil, err
		}
	}
	m.logIdentity(log)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return secrets.Run(ctx) })
	if m.Source == FromMesh {
		group.Go(func() error { return secrets.Member(ctx, m.membership) })
		group.Go(func() error { return m.membership.Run(ctx, m.renew(u, m.alias)) })
		group.Go(func() error { return join.Follow(ctx, u, m.membership, log) })
	}
	return func() error {
		if err := group.Wait(); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}, nil
}

// Adopt uses the certificate that mesh-agent join has put into the folder. If that is for another
// identity, it changes nothing, and another is true.
func (m *Member) Adopt() (another bool, err error) {
	err = m.membership.Adopt()
	if errors.Is(err, membership.ErrOtherID) {
		return true, nil
	}
	return false, err
}

func (m *Member) logIdentity(log *slog.Logger) {
	if m.Source == FromFiles {
		log.Info("this machine is a member of the mesh by its own files", "identity", m.Workload.String())
		return
	}
	log.Info("this machine is a member of the mesh", "identity", m.Workload.String(), "until", m.until.UTC().Format(time.RFC3339), "discovery", strings.Join(m.servers, ","))
}

// Credentials returns what this machine and discovery prove themselves by to each other.
func (m *Member) Credentials(log *slog.Logger) (*upstream.Credentials, error) {
	switch m.Source {
	case Insecure:
		return upstream.Insecure, nil
	case FromMesh:
		return upstream.Member(m.membership), nil
	}
	return upstream.Files(m.files.cert, m.files.key, m.files.roots, log)
}

// Certificate returns a function that returns the present certificate of a machine that has one.
// What names its use in the log.
func (m *Member) Certificate(what string, log *slog.Logger) (func() *tls.Certificate, error) {
	if m.Source == FromMesh {
		return func() *tls.Certificate { return &m.membership.Current().Certificate }, nil
	}
	return m.files.certificate(what, log)
}
