// Package resolver has the agent answer for names on this machine: it runs the resolver (package
// dns), and has the machine ask it for as long as that answers (package claim).
package resolver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/host/dns"
	"github.com/pgmesh/pgmesh/mesh-agent/host/dns/claim"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
	ndsv1 "github.com/pgmesh/pgmesh/proto/istio/networking/nds/v1"
)

// Surroundings are what a resolver has to know of its agent.
type Surroundings struct {
	Folder string // the state folder
	// Proxy describes the proxy. It is called only if the agent runs a resolver.
	Proxy func() (bootstrap.Options, error)
	// Except lists the hosts of discovery: that they are found must not depend on discovery.
	Except  []string
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Resolver is this machine's resolver. A nil Resolver answers nothing.
type Resolver struct {
	*dns.Server

	machine *claim.Machine
	claim   claim.Claim
	domains []string // from the flag
}

// Open opens the resolver, and returns nil if there is to be none. It takes back what an earlier
// agent has changed on the machine, if that is not wanted any more.
func Open(o Options, s Surroundings) (*Resolver, error) {
	on := o.Machine(s.Folder, s.Log)
	mode, err := o.choose(on)
	if err != nil {
		return nil, err
	}
	if mode == claim.Off || mode == claim.Serve {
		if err := restoreLeftover(on, s.Log); err != nil {
			return nil, err
		}
	}
	if mode == claim.Off {
		return nil, nil
	}
	proxy, err := s.Proxy()
	switch {
	case err != nil:
		return nil, err
	case proxy.Role == bootstrap.Gateway:
		return nil, fmt.Errorf("--dns %s: a gateway is told no names of the mesh, for no applications ask it: leave --dns out", mode)
	case o.Proxy == "" || strings.HasSuffix(o.Proxy, ":0"):
		return nil, fmt.Errorf("--dns-proxy-listen %q: Envoy is told where to ask, so this has to be an address with a port, as 127.0.0.1:15054", o.Proxy)
	case o.TTL < 0 || o.TTL > 24*time.Hour:
		return nil, fmt.Errorf("--dns-ttl %s: expected a time of up to a day", o.TTL)
	}
	server, err := dns.Open(dns.Options{
		Listen: o.Listen, Proxy: o.Proxy, Except: s.Except, Port53: mode == claim.ResolvConf, Domain: proxy.Domain, TTL: o.TTL, Upstreams: o.Upstreams,
		ResolvConf: o.ResolvConf, BypassStub: func() bool { return mode == claim.Resolved || on.Routes() }, NamesFile: filepath.Join(s.Folder, "names"), Log: s.Log, Metrics: s.Metrics,
	})
	if err != nil {
		return nil, err
	}
	return &Resolver{Server: server, machine: on, claim: o.claim(mode, server), domains: o.Domains}, nil
}

// restoreLeftover takes back what an earlier agent has changed. What root changed for an agent of
// another account, root alone takes back.
func restoreLeftover(on *claim.Machine, log *slog.Logger) error {
	did, err := on.Restore()
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if did != "" {
		log.Info("names are asked for as before", "did", did)
	}
	return err
}

func (o *Options) claim(mode claim.Mode, server *dns.Server) claim.Claim {
	c := claim.Claim{Mode: mode, Domains: o.Domains}
	if mode == claim.ResolvConf {
		c.Server = server.Port53Address()
	} else if addresses := server.Addresses(); len(addresses) > 0 {
		c.Server = addresses[0]
	}
	return c
}

// Sink returns the function that receives name tables, nil if there is no resolver.
func (r *Resolver) Sink() func(*ndsv1.NameTable) {
	if r == nil {
		return nil
	}
	return r.Names
}

// firstTableTimeout is how long to wait for discovery's first table before the machine asks for the
// names that are known.
const firstTableTimeout = 5 * time.Second

// Run serves until serving ends. The machine asks this resolver until ctx ends.
func (r *Resolver) Run(ctx, serving context.Context) error {
	if r == nil {
		return nil
	}
	group, serving := errgroup.WithContext(serving)
	group.Go(func() error { return r.Server.Run(serving) })
	switch {
	case r.claim.Mode == claim.Serve:
	case !r.machine.Permitted(r.claim.Mode):
		r.machine.Log.Info("this agent may not have the machine ask it for names, and leaves that to root: mesh-agent dns apply, as the unit does")
	default:
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(serving, cancel)() // nobody is to ask a resolver that no longer answers
		group.Go(func() error { return r.keep(ctx) })
	}
	return group.Wait()
}

// keep has the machine ask this resolver once there are names.
func (r *Resolver) keep(ctx context.Context) error {
	timer := time.NewTimer(firstTableTimeout)
	defer timer.Stop()
	select {
	case <-r.FirstTable():
	case <-timer.C:
	case <-ctx.Done():
	}
	return r.machine.Keep(ctx, r.claim, r.routedDomains())
}

// routedDomains returns the function that lists what systemd-resolved asks this resolver for.
func (r *Resolver) routedDomains() func() []string {
	if r.claim.Mode != claim.Resolved {
		return nil
	}
	r.claim.Others = claim.IPs(r.Upstreams())
	return func() []string {
		if len(r.domains) > 0 {
			return append(r.Completions(), r.domains...)
		}
		return claim.Domains(r.Completions(), r.Hosts())
	}
}

// Status returns the function that describes the resolver for the status of the agent, nil if there
// is none.
func (r *Resolver) Status() func() status.DNS {
	if r == nil {
		return nil
	}
	return func() status.DNS {
		names, known := r.Known()
		s := status.DNS{Listen: fmt.Sprint(r.Addresses()), Names: names}
		for _, u := range r.Upstreams() {
			s.Forwards = append(s.Forwards, u.String())
		}
		if r.claim.Mode != claim.Serve {
			s.Managed = string(r.claim.Mode)
		}
		switch {
		case !known && names > 0:
			s.Trouble = "discovery has not said yet what names there are; those that there were last are answered for"
		case !known:
			s.Trouble = "discovery has not said yet what names there are"
		case len(s.Forwards) == 0:
			s.Trouble = "there is nobody to ask for other names than the mesh's: name a resolver with --dns-upstream"
		}
		return s
	}
}
