package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/identity/membership"
	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/mesh-agent/host/statedir"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/join"
)

// joinTimeout bounds one attempt to join.
const joinTimeout = 30 * time.Second

func membershipIn(folder *statedir.Folder, log *slog.Logger, metrics prometheus.Registerer) membership.Options {
	return membership.Options{Folder: folder.Path, Is: join.IsMachine, Log: log, Metrics: membership.Metrics{
		Registerer: metrics, NotAfter: "pgmesh_mesh_agent_identity_not_after_seconds", Renewals: "pgmesh_mesh_agent_identity_renewals_total",
	}}
}

// Join makes this machine a member, in one attempt. A machine that is a member already stays what
// it is, unless it is to join again.
func Join(ctx context.Context, folder *statedir.Folder, servers []string, c *join.Credential, again bool, log *slog.Logger) (*membership.State, error) {
	o := membershipIn(folder, log, nil)
	if !again {
		if err := checkNew(o); err != nil {
			return nil, err
		}
	}
	ask, err := c.Ask(ctx, servers, log)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	m, err := membership.Join(ctx, o, ask)
	if err != nil {
		return nil, errors.Join(err, statedir.Own(o.Folder)) // the key of a failed attempt is kept
	}
	return m.Current(), errors.Join(folder.SaveServers(servers), folder.SaveGroup(c.Group), statedir.Own(o.Folder))
}

// checkNew keeps a member from losing its identity by joining again by mistake.
func checkNew(o membership.Options) error {
	m, err := membership.Open(o)
	switch {
	case errors.Is(err, membership.ErrNone), errors.Is(err, membership.ErrExpired):
		return nil
	case err != nil:
		return fmt.Errorf("%w (--again gives up what is in %s, and joins)", err, o.Folder)
	default:
		return fmt.Errorf("this machine is a member already: %s, until %s; --again gives that up and joins anew, --state-dir keeps another beside it",
			m.Current().ID, m.Current().NotAfter().UTC().Format(time.RFC3339))
	}
}

// enroll returns the membership that this machine has, or else the one that its credential gets it.
func (o *Options) enroll(ctx context.Context) (*Member, error) {
	servers, unknown := o.Servers()
	options := membershipIn(o.Folder, o.Log, o.Metrics)
	opened, err := membership.Open(options)
	none, expired := errors.Is(err, membership.ErrNone), errors.Is(err, membership.ErrExpired)
	switch {
	case (none || expired) && o.Credential.Given():
		if err = unknown; err == nil {
			opened, err = o.joinFirst(ctx, servers, options)
		}
	case none:
		err = errors.New("this machine is no member of a mesh yet: mesh-agent join --server HOST:15012 makes it one " +
			"(it asks for the token that mcp-client token create makes); --insecure speaks plaintext with a discovery that does so, too")
	case expired:
		err = fmt.Errorf("%w; this machine was away for too long, or could not reach discovery: join again with a new token: "+
			"mesh-agent join --server %s", err, cmp.Or(strings.Join(servers, ","), "HOST:15012"))
	}
	if err != nil {
		return nil, err
	}
	return o.enrolled(opened, servers), nil
}

// joinFirst joins. It tries again while discovery cannot be reached or gives no certificates, as
// the machine may start before discovery.
func (o *Options) joinFirst(ctx context.Context, servers []string, options membership.Options) (*membership.Membership, error) {
	ask, err := o.Credential.Ask(ctx, servers, o.Log)
	if err != nil {
		return nil, err
	}
	var joined *membership.Membership
	err = retry.Loop{
		Pauses: retry.Pauses{First: 500 * time.Millisecond, Longest: time.Minute},
		Failed: func(err error, in time.Duration) {
			o.Log.Warn("this machine cannot join yet; it is tried again", "again_in", in.Round(time.Millisecond), "error", err)
		},
	}.Until(ctx, func() error {
		ctx, cancel := context.WithTimeout(ctx, joinTimeout)
		defer cancel()
		var err error
		if joined, err = membership.Join(ctx, options, ask); err != nil && !join.Passing(err) {
			return retry.Stop(err)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return joined, errors.Join(o.Folder.SaveServers(servers), o.Folder.SaveGroup(o.Credential.Group))
}
