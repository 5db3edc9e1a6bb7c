package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/identity"
	"github.com/pgmesh/pgmesh/internal/membership"
	"github.com/pgmesh/pgmesh/mesh-agent/join"
	"github.com/pgmesh/pgmesh/mesh-agent/sds"
	"github.com/pgmesh/pgmesh/mesh-agent/upstream"
)

// remembered is the file with the addresses of the discovery that a machine joined at, a line each.
func (f *stateFlags) remembered() string { return filepath.Join(f.folder, "discovery") }

func (f *stateFlags) remember(servers []string) error {
	return os.WriteFile(f.remembered(), []byte(strings.Join(servers, "\n")+"\n"), 0o600)
}

func (f *stateFlags) recall() []string {
	content, _ := os.ReadFile(f.remembered()) // without it the addresses have to be said
	return strings.Fields(string(content))
}

func (f *stateFlags) membership(log *slog.Logger, metrics prometheus.Registerer) membership.Options {
	return membership.Options{Folder: f.folder, Is: join.IsMachine, Log: log, Metrics: metrics}
}

// ownFlags name files of a machine whose certificates are given out by somebody else.
type ownFlags struct{ cert, key, roots string }

func (f *ownFlags) declare(flags *pflag.FlagSet) {
	flags.StringVar(&f.cert, "tls-cert", "", "PEM file with this machine's certificate, if somebody else gives it out; it is read again when it changes")
	flags.StringVar(&f.key, "tls-key", "", "PEM file with the key of --tls-cert")
	flags.StringVar(&f.roots, "tls-roots", "", "PEM file with the authorities that vouch for the members of the mesh, with --tls-cert")
}

func (f *ownFlags) given() bool { return *f != ownFlags{} }

// workload is who the machine is by its own files.
func (f *ownFlags) workload() (w identity.Workload, err error) {
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

// machine is who this machine is to the mesh.
type machine struct {
	identity.Workload

	until time.Time
	own   ownFlags

	// Of a machine with a certificate of the mesh.
	member  *membership.Membership
	servers []string
	renew   func(*upstream.Upstream) membership.Ask
}

// machine finds out who this machine is; it is nobody with --insecure. A machine that is no member yet becomes one if the flags say how.
func (m *member) machine(ctx context.Context, log *slog.Logger, metrics prometheus.Registerer) (*machine, error) {
	switch {
	case m.insecure && (m.own.given() || m.credential.given()):
		return nil, errors.New("--insecure and the flags of a certificate or a token exclude each other: choose one way to speak with discovery")
	case m.insecure:
		return nil, nil
	}
	if _, err := m.envoySocket(); err != nil {
		return nil, err // before anybody joins
	}
	if m.own.given() {
		w, err := m.own.workload()
		return &machine{Workload: w, own: m.own}, err
	}
	return m.enrolled(ctx, log, metrics)
}

// enrolled is a machine with a certificate of the mesh.
func (m *member) enrolled(ctx context.Context, log *slog.Logger, metrics prometheus.Registerer) (*machine, error) {
	servers, unknown := m.servers()
	options := m.state.membership(log, metrics)
	opened, err := membership.Open(options)
	none, expired := errors.Is(err, membership.ErrNone), errors.Is(err, membership.ErrExpired)
	switch {
	case (none || expired) && m.credential.given():
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

// joinFirst goes on trying while discovery cannot be reached, or cannot do it: a machine may start before it.
func (m *member) joinFirst(ctx context.Context, servers []string, o membership.Options, log *slog.Logger) (*membership.Membership, error) {
	ask, err := m.credential.ask(ctx, servers, log)
	if err != nil {
		return nil, err
	}
	joined, err := backoff.Retry(ctx, func() (*membership.Membership, error) {
		ctx, cancel := context.WithTimeout(ctx, joinWithin)
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
	return joined, errors.Join(m.state.remember(servers), m.state.rememberGroup(m.credential.group))
}

// renewal asks with the certificate that there is. One that has expired counts for nothing, and then the token does, if there is one.
func (m *member) renewal(made *machine, log *slog.Logger) func(*upstream.Upstream) membership.Ask {
	return func(u *upstream.Upstream) membership.Ask {
		return func(ctx context.Context, csr []byte) (membership.Granted, error) {
			if time.Now().Before(made.member.Current().NotAfter()) || !m.credential.given() {
				return join.ByCertificate(u)(ctx, csr)
			}
			ask, err := m.credential.ask(ctx, made.servers, log)
			if err != nil {
				return membership.Granted{}, err
			}
			return ask(ctx, csr)
		}
	}
}

// keep keeps new who the machine is, and has Envoy served it, until the context ends.
func (m *machine) keep(ctx context.Context, secrets *sds.Server, u *upstream.Upstream, log *slog.Logger) (func() error, error) {
	if m == nil {
		return func() error { return nil }, nil
	}
	if m.own.given() {
		if err := secrets.ServeFiles(m.own.cert, m.own.key, m.own.roots); err != nil {
			return nil, err
		}
	}
	m.tell(log)
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

func (m *machine) tell(log *slog.Logger) {
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
