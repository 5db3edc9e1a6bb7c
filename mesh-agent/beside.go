package main

import (
	"context"
	"log/slog"
	"net"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// beside is what the agent does for applications itself, beside their proxy.
type beside struct {
	log    *slog.Logger
	names  *resolver
	tokens *exchanger
	status net.Listener // nil if nobody wants it
}

func (m *member) beside(who *machine, status string, log *slog.Logger, metrics prometheus.Registerer) (b beside, err error) {
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

// run serves until lasting ends. At the end of the first context nobody new is sent here. What fails here is no reason to end a proxy, which has
// connections.
func (b *beside) run(ctx, lasting context.Context) {
	var all sync.WaitGroup
	all.Go(func() {
		if err := b.names.run(ctx, lasting); err != nil {
			b.log.Error("this agent resolves no names any more; start it anew", "error", err)
		}
	})
	all.Go(func() {
		if err := b.tokens.run(lasting); err != nil {
			b.log.Error("this agent exchanges no tokens any more; start it anew", "error", err)
		}
	})
	all.Wait()
}
