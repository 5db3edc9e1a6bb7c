package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
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

func membershipOptions(folder *statedir.Folder, log *slog.Logger, metrics prometheus.Registerer) membership.Options {
	return membership.Options{Folder: folder.Path, Is: join.IsMachine, Log: log, Metrics: metrics}
}

// certificateFlags name the files of a machine whose certificates come from another issuer.
type certificateFlags struct{ cert, key, roots string }

func (f *certificateFlags) declare(flags *pflag.FlagSet) {
	flags.StringVar(&f.cert, "tls-cert", "", "PEM file with this machine's certificate, if somebody else gives it out; it is read again when it changes")
	flags.StringVar(&f.key, "tls-key", "", "PEM file with the key of --tls-cert")
	flags.StringVar(&f.roots, "tls-roots", "", "PEM file with the authorities that vouch for the members of the mesh, with --tls-cert")
}

func (f *certificateFlags) given() bool { return *f != certificateFlags{} }

// workload returns the identity in the machine's own files.
func (f *certificateFlags) workload() (w identity.Workload, err error) {
	if f.cert == "" || f.key == "" || f.roots == "" {
		return w, errors.New("--tls-cert, --tls-key and --tls-roots belong together: give all three")
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return w, fmt.Errorf("%s and %s: %w", f.cert, f.key, err)
	}
	id, err := identity.Of(pair.Leaf)
	if err == nil {
		err = join.IsMachine(id)
	}
	if err != nil {
		return w, fmt.Errorf("%s: %w", f.cert, err)
	}
	w, _ = identity.WorkloadOf(id)
	return w, nil
}

// machine is this machine's identity in the mesh.
type machine struct {
	identity.Workload

	until time.Time
	files certificateFlags

	// For a certificate from the mesh.
	member  *membership.Membership
	servers []string
	renew   func(*upstream.Upstream) membership.Ask
}

// machine returns this machine's identity, nil with --insecure. A machine that is not a member yet joins if
// the flags have credentials.
func (m *member) machine(ctx context.Context, log *slog.Logger, metrics prometheus.Registerer) (*machine, error) {
	switch {
	case m.insecure && (m.files.given() || m.credential.Given()):
		return nil, errors.New("--insecure and the flags of a certificate or a token exclude each other: choose one way to speak with discovery")
	case m.insecure:
		return nil, nil
	}
	if _, err := m.envoySocket(); err != nil {
		return nil, err // before joining
	}
	if m.files.given() {
		w, err := m.files.workload()
		return &machine{Workload: w, files: m.files}, err
	}
	return m.enroll(ctx, log, metrics)
}

// enroll returns the identity of a member of the mesh.
func (m *member) enroll(ctx context.Context, log *slog.Logger, metrics prometheus.Registerer) (*machine, error) {
	servers, unknown := m.servers()
	options := membershipOptions(&m.state, log, metrics)
	opened, err := membership.Open(options)
	none, expired := errors.Is(err, membership.ErrNone), errors.Is(err, membership.ErrExpired)
	switch {
	case (none || expired) && m.credential.Given():
		if err = unknown; err == nil {
			opened, err = m.joinFirst(ctx, servers, options, log)
		}
	case none:
		err = errors.New("this machine is no member of a mesh yet: mesh-agent join --server HOST:15012 makes it one " +
			"(it asks for the token that mcp-client token create makes); --insecure speaks plaintext with a discovery that does so, too")
	case expired:
		err = fmt.Errorf("%w; this machine was away for too long, or could not reach discovery: join again with a new token: "+
			"mesh-agent join --server %s", err, orWord(strings.Join(servers, ","), "HOST:15012"))
	}
	if err != nil {
		return nil, err
	}
	state := opened.Current()
	w, _ := identity.WorkloadOf(state.ID)
	made := &machine{Workload: w, until: state.NotAfter(), member: opened, servers: servers}
	made.renew = m.renewal(made, log)
	return made, nil
}

// joinFirst retries while discovery cannot be reached or cannot issue certificates, as the machine may
// start before discovery.
func (m *member) joinFirst(ctx context.Context, servers []string, o membership.Options, log *slog.Logger) (*membership.Membership, error) {
	ask, err := m.credential.Ask(ctx, servers, log)
	if err != nil {
		return nil, err
	}
	joined, err := backoff.Retry(ctx, func() (*membership.Membership, error) {
		ctx, cancel := context.WithTimeout(ctx, joinTimeout)
		defer cancel()
		joined, err := membership.Join(ctx, o, ask)
		if err != nil && !join.Passing(err) {
			err = backoff.Permanent(err)
		}
		return joined, err
	}, backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, in time.Duration) {
		log.Warn("this machine cannot join yet; it is tried again", "in", in.Round(time.Millisecond), "error", err)
	}))
	if err != nil {
		return nil, err
	}
	return joined, errors.Join(m.state.SaveServers(servers), m.state.SaveGroup(m.credential.Group))
}

// renewal returns how to renew: with the present certificate, or with the token if that has expired and
// there is a token.
func (m *member) renewal(made *machine, log *slog.Logger) func(*upstream.Upstream) membership.Ask {
	return func(u *upstream.Upstream) membership.Ask {
		return func(ctx context.Context, csr []byte) (membership.Granted, error) {
			if time.Now().Before(made.member.Current().NotAfter()) || !m.credential.Given() {
				return join.ByCertificate(u)(ctx, csr)
			}
			ask, err := m.credential.Ask(ctx, made.servers, log)
			if err != nil {
				return membership.Granted{}, err
			}
			return ask(ctx, csr)
		}
	}
}

// keep renews the identity and serves it to Envoy until the context ends.
func (m *machine) keep(ctx context.Context, secrets *sds.Server, u *upstream.Upstream, log *slog.Logger) (func() error, error) {
	if m == nil {
		return func() error { return nil }, nil
	}
	if m.files.given() {
		if err := secrets.ServeFiles(m.files.cert, m.files.key, m.files.roots); err != nil {
			return nil, err
		}
	}
	m.logIdentity(log)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return secrets.Run(ctx) })
	if m.member != nil {
		group.Go(func() error { return secrets.Member(ctx, m.member) })
		group.Go(func() error { return m.member.Run(ctx, m.renew(u)) })
		group.Go(func() error { return join.Follow(ctx, u, m.member, log) })
	}
	return func() error {
		if err := group.Wait(); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}, nil
}

func (m *machine) logIdentity(log *slog.Logger) {
	if m.member == nil {
		log.Info("this machine is a member of the mesh by its own files", "identity", m.Workload.String())
		return
	}
	log.Info("this machine is a member of the mesh", "identity", m.Workload.String(), "until", m.until.UTC().Format(time.RFC3339), "discovery", strings.Join(m.servers, ","))
}

func orWord(text, word string) string {
	if text == "" {
		return word
	}
	return text
}
