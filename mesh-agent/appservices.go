package main

import (
	"context"
	"log/slog"
	"net"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// appServices is what the agent serves to applications itself: names and tokens. It also has the status
// port.
type appServices struct {
	log    *slog.Logger
	names  *resolver
	tokens *exchanger
	status net.Listener // nil if disabled
}

func (m *member) openAppServices(who *machine, status string, log *slog.Logger, metrics prometheus.Registerer) (b appServices, err error) {
	b.log = log
	if b.names, err = m.resolver(who, log, metrics); err != nil {
		return b, err
	}
	if b.tokens, err = m.sts.open(who, log, metrics); err != nil {
		return b, err
	}
	b.status, err = listenStatus(status, log)
	return b, err
}

// run serves until serving ends. When ctx ends, the machine is no longer configured to use the resolver. A
// failure here is logged only, because the proxy has connections to keep.
func (b *appServices) run(ctx, serving context.Context) {
	var all sync.WaitGroup
	all.Go(func() {
		if err := b.names.run(ctx, serving); err != nil {
			b.log.Error("this agent resolves no names any more; restart it", "error", err)
		}
	})
	all.Go(func() {
		if err := b.tokens.run(serving); err != nil {
			b.log.Error("this agent exchanges no tokens any more; restart it", "error", err)
		}
	})
	all.Wait()
}
