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
	o.Discovery, o.Retry, o.Log, o.Metrics = a.discovery, a.discovery.Retry, a.log, a.metrics
	registered := register.New(o)
	a.server.Parts.Registration = registered.Status
	d := &a.server.Drainer
	d.Withdraw, d.Return, d.Returned, d.Tell = registered.TryWithdraw, registered.Return, registered.Returned, registered.Tell
	d.Alone = func(ctx context.Context) ([]string, error) { return a.Machine.Alone(ctx, a.who, a.discovery) }
	return registered, nil
}

// withdrawTimeout is how long Envoy waits to drain until others send nothing new, and leaveTimeout how
// long the agent then waits to be out of the mesh.
const (
	withdrawTimeout = 5 * time.Second
	leaveTimeout    = 5 * time.Second
)

// membership is the machine's place in the mesh.
type membership struct {
	agent *register.Agent // nil for a machine without services
	begun chan struct{}   // closed once runs is known
	runs  bool            // the agent was started
	log   *slog.Logger
}

// keepRegistered keeps the machine registered, from when its traffic comes through Envoy: before that
// its applications would be sent others' mutual TLS. Nor does it begin before no other agent of the
// machine has the name: that one would lose its place.
func (a *agent) keepRegistered(ctx, serving context.Context, group *errgroup.Group) *membership {
	agent := a.registered
	m := &membership{agent: agent, begun: make(chan struct{}), log: a.log}
	if agent == nil {
		return m
	}
	a.name.Waits = agent.Waits
	group.Go(func() error {
		m.runs = a.redirected.await(ctx) && a.name.Await(ctx)
		close(m.begun)
		if !m.runs {
			return nil
		}
		if err := agent.Run(serving); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
	return m
}

// staying returns Envoy's context. It ends after ctx, when others have been told to send nothing new.
func (m *membership) staying(ctx, serving context.Context) context.Context {
	if m.agent == nil {
		return ctx
	}
	staying, end := context.WithCancel(serving)
	context.AfterFunc(ctx, func() {
		defer end()
		if <-m.begun; !m.runs {
			return
		}
		bounded, cancel := context.WithTimeout(serving, withdrawTimeout)
		defer cancel()
		known := m.agent.Registered()
		switch err := m.agent.Withdraw(bounded); {
		case err != nil && known:
			m.log.Warn("this machine ends, but may still get requests for a while", "error", err)
		case err == nil:
			m.log.Info("this machine gets no more requests")
		}
	})
	return staying
}

// registers reports whether the agent was started.
func (m *membership) registers() bool {
	select {
	case <-m.begun:
		return m.runs
	default: // Envoy has failed before there was anything to register
		return false
	}
}

// leave takes the machine out of the mesh, after Envoy has ended.
func (m *membership) leave(serving context.Context) {
	if m.agent == nil || !m.registers() {
		return
	}
	bounded, cancel := context.WithTimeout(serving, leaveTimeout)
	defer cancel()
	known := m.agent.Registered()
	switch err := m.agent.Leave(bounded); {
	case err != nil && known:
		m.log.Warn("this machine ends, but stays an endpoint for the grace period", "error", err)
	case err == nil:
		m.log.Info("this machine has left the mesh")
	}
}
