// Package gatewaynames finds the addresses of gateways that a mesh knows by a name, as the load
// balancers of some clouds are known.
//
// Proxies are sent addresses: what is behind a gateway stands among the endpoints of a service, where
// Envoy takes no names. So discovery resolves them, and asks again every half a minute, for such names
// move. An answer that does not come takes nothing away: the last one counts for as long.
package gatewaynames

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// What names may take.
const (
	mostNames     = 64 // further names have no addresses
	mostAddresses = 16 // of a name
	atOnce        = 8
	patience      = 5 * time.Second
)

// Every is how often names are resolved again.
const Every = 30 * time.Second

// Resolver is a client of DNS. That of package net is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Keeper keeps the addresses of names.
type Keeper struct {
	resolver Resolver
	every    time.Duration
	log      *slog.Logger

	wake chan struct{} // has room for one signal: other names are wanted
	news chan struct{} // has room for one signal: addresses have changed

	mu        sync.Mutex
	wanted    []string
	addresses mesh.GatewayAddresses // replaced, never changed
	failing   map[string]bool       // those that the log has told of
}

// New returns a keeper that resolves names by the resolver of this machine.
func New(log *slog.Logger) *Keeper { return with(net.DefaultResolver, Every, log) }

func with(resolver Resolver, every time.Duration, log *slog.Logger) *Keeper {
	return &Keeper{
		resolver: resolver, every: every, log: log, wake: make(chan struct{}, 1), news: make(chan struct{}, 1),
		addresses: mesh.GatewayAddresses{}, failing: map[string]bool{},
	}
}

// Want says which names are to be resolved, sorted. Others are forgotten.
func (k *Keeper) Want(names []string) {
	if len(names) > mostNames {
		names = names[:mostNames]
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if slices.Equal(names, k.wanted) {
		return
	}
	k.wanted = slices.Clone(names)
	kept := maps.Clone(k.addresses)
	maps.DeleteFunc(kept, func(name string, _ []string) bool { return !slices.Contains(k.wanted, name) })
	maps.DeleteFunc(k.failing, func(name string, _ bool) bool { return !slices.Contains(k.wanted, name) })
	k.addresses = kept
	signal(k.wake)
}

// Addresses are those that are known. They must not be changed.
func (k *Keeper) Addresses() mesh.GatewayAddresses {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.addresses
}

// News receives when addresses have changed.
func (k *Keeper) News() <-chan struct{} { return k.news }

// Run resolves names until the context ends.
func (k *Keeper) Run(ctx context.Context) error {
	ticker := time.NewTicker(k.every)
	defer ticker.Stop()
	for {
		k.resolveAll(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-k.wake:
		case <-ticker.C:
		}
	}
}

func (k *Keeper) resolveAll(ctx context.Context) {
	k.mu.Lock()
	names := k.wanted
	k.mu.Unlock()
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, name := range names {
		group.Go(func() error {
			found, err := k.resolve(ctx, name)
			if ctx.Err() == nil {
				k.take(name, found, err)
			}
			return nil
		})
	}
	_ = group.Wait() // each name has said what is wrong with it
}

func (k *Keeper) resolve(ctx context.Context, name string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := k.resolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, len(found))
	for _, a := range found {
		if a = a.Unmap(); a.Zone() == "" && !a.IsUnspecified() {
			out = append(out, a.String())
		}
	}
	slices.Sort(out)
	if out = slices.Compact(out); len(out) == 0 {
		return nil, errors.New("it has no address")
	}
	return out[:min(len(out), mostAddresses)], nil
}

// take keeps what a name resolves to. A failure is told once.
func (k *Keeper) take(name string, found []string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Contains(k.wanted, name) {
		return
	}
	if err != nil {
		if !k.failing[name] {
			k.failing[name] = true
			k.log.Warn("the name of a network's gateway cannot be resolved; its last addresses stay, and it is tried again. Correct the name, or have this machine's DNS know it",
				"address", name, "count", len(k.addresses[name]), "again_in", k.every, "error", err)
		}
		return
	}
	delete(k.failing, name)
	if slices.Equal(found, k.addresses[name]) {
		return
	}
	now := maps.Clone(k.addresses)
	now[name] = found
	k.addresses = now
	signal(k.news)
}

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default: // one waits there
	}
}
