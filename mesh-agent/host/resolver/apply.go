package resolver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"

	"github.com/pgmesh/pgmesh/mesh-agent/host/dns"
	"github.com/pgmesh/pgmesh/mesh-agent/host/dns/claim"
)

// ErrNoAddress is returned where --dns-listen is empty.
var ErrNoAddress = errors.New("where is the resolver? Say it with --dns-listen host:port")

// Apply has the machine ask the resolver of a running agent that may not do so itself. It says what
// it did.
func (o *Options) Apply(ctx context.Context, folder string, log *slog.Logger) (did string, err error) {
	on := o.Machine(folder, log)
	mode, err := o.choose(on)
	if err != nil {
		return "", err
	}
	if mode != claim.Resolved && mode != claim.ResolvConf {
		return fmt.Sprintf("nothing is changed with --dns %s; resolved, resolv.conf and auto have this machine ask the agent", mode), nil
	}
	server, err := o.running(ctx, mode)
	if err != nil {
		return "", err
	}
	c := claim.Claim{Mode: mode, Server: server, Domains: o.Domains, Others: on.Upstreams()}
	if mode == claim.Resolved && len(c.Domains) == 0 {
		c.Domains = []string{claim.Everything}
	}
	changed, err := on.Apply(c)
	switch {
	case err != nil:
		return "", err
	case !changed:
		return "this machine asks " + c.Server.String() + " already", nil
	default:
		return "this machine asks " + c.Server.String() + " for names, by " + string(mode) + "; mesh-agent dns restore takes that back", nil
	}
}

// running returns the address of a resolver that answers. The machine must not ask one that does
// not.
func (o *Options) running(ctx context.Context, mode claim.Mode) (netip.AddrPort, error) {
	var failed error
	candidates := o.Listen
	if mode == claim.ResolvConf {
		candidates = append(slices.Clone(o.Listen), dns.Port53Addresses()...)
	}
	for _, text := range candidates {
		at, err := netip.ParseAddrPort(text)
		if err != nil {
			return at, fmt.Errorf("--dns-listen %s: expected an address with a port, as 127.0.0.1:53", text)
		}
		if mode == claim.ResolvConf && at.Port() != 53 {
			continue // resolv.conf has no ports
		}
		if _, err = dns.Explain(ctx, text, "localhost"); err == nil {
			return at, nil
		}
		failed = errors.Join(failed, err)
	}
	if failed == nil {
		failed = ErrNoAddress
	}
	return netip.AddrPort{}, failed
}
