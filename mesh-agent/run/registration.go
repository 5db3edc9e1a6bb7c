package run

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/mesh-agent/services/register"
)

// openRegistration returns what registers the machine's services, nil if there are none.
func (a *agent) openRegistration() (*register.Agent, error) {
	if len(a.Machine.Services()) == 0 {
		return nil, nil // the machine serves nothing
	}
	o, err := a.Machine.Registration(a.who)
	if err != nil {
		return nil, err
	}
	o.Discovery, o.Log, o.Metrics = a.discovery, a.log, a.metrics
	registered := register.New(o)
	a.server.Parts.Registration, a.server.Leave = registered.Status, registered.Leave
	return registered, nil
}

// leaveTimeout is how long Envoy waits to drain until the machine has left; until then others still
// send requests.
const leaveTimeout = 5 * time.Second

// keepRegistered keeps the machine registered, from when its traffic comes through Envoy: before that
// its applications would be sent others' mutual TLS. The returned context is Envoy's: it ends when the
// machine has left after ctx ends.
func keepRegistered(ctx, serving context.Context, group *errgroup.Group, agent *register.Agent, redirected *redirection, log *slog.Logger) context.Context {
	if agent == nil {
		return ctx
	}
	begins := make(chan bool, 1)
	group.Go(func() error {
		redirects := redirected.await(ctx)
		begins <- redirects
		if !redirects {
			return nil
		}
		if err := agent.Run(serving); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
	staying, end := context.WithCancel(serving)
	context.AfterFunc(ctx, func() {
		defer end()
		if !<-begins {
			return
		}
		bounded, cancel := context.WithTimeout(serving, leaveTimeout)
		defer cancel()
		known := agent.Registered()
		switch err := agent.Leave(bounded); {
		case err != nil && known:
			log.Warn("this machine ends, but may still get requests for a while", "error", err)
		case err == nil:
			log.Info("this machine has left the mesh: it gets no more requests")
		}
	})
	return staying
}
