package run

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/host/resolver"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/member"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/sts"
)

// appServices is what the agent serves to applications itself: names and tokens. It also has the
// status port.
type appServices struct {
	log    *slog.Logger
	names  *resolver.Resolver // nil if disabled, as the others
	tokens *sts.Server
	status net.Listener
}

func (a *agent) openAppServices() (s appServices, err error) {
	s.log = a.log
	m := &a.Machine
	s.names, err = resolver.Open(m.DNS, resolver.Surroundings{
		Folder: m.State.Path, Except: m.ServerHosts(), Log: a.log, Metrics: a.metrics,
		Proxy: func() (bootstrap.Options, error) { return m.Proxy(a.who) },
	})
	if err != nil {
		return s, err
	}
	if s.tokens, err = a.openExchange(); err != nil {
		return s, err
	}
	s.status, err = listenStatus(a.Status, a.log)
	return s, err
}

// openExchange opens the exchange of tokens, nil if no endpoint is configured.
func (a *agent) openExchange() (*sts.Server, error) {
	o := a.Exchange
	if wanted, err := o.Wanted(); !wanted || err != nil {
		return nil, err
	}
	o.Log, o.Metrics = a.log, a.metrics
	if a.who.Source != member.Insecure {
		var err error
		if o.Certificate, err = a.who.Certificate("certificate for the token endpoint", a.log); err != nil {
			return nil, err
		}
		if o.ClientID == "" {
			o.ClientID = a.who.Workload.String()
		}
	}
	server, err := sts.Open(o)
	if err != nil {
		return nil, err
	}
	a.log.Info("exchanging tokens", "address", server.Address(), "upstream", o.Upstream)
	return server, nil
}

// listenStatus returns nil for an empty address.
func listenStatus(address string, log *slog.Logger) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	listener, err := listen.TCP("status", address)
	if err != nil {
		return nil, fmt.Errorf("open the status port: %w", err)
	}
	log.Info("status address open", "address", listener.Addr())
	return listener, nil
}

// run serves until serving ends. When ctx ends, the machine asks for names as it did without the
// agent. A failure here is logged only, because the proxy has connections to keep.
func (s *appServices) run(ctx, serving context.Context) {
	var all sync.WaitGroup
	all.Go(func() {
		if err := s.names.Run(ctx, serving); err != nil {
			s.log.Error("this agent resolves no names any more; restart it", "error", err)
		}
	})
	if s.tokens != nil {
		all.Go(func() {
			if err := s.tokens.Run(serving); err != nil {
				s.log.Error("this agent exchanges no tokens any more; restart it", "error", err)
			}
		})
	}
	all.Wait()
}
