package redirect_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/host/redirect"
)

// within runs a Kernel in the machine's network namespace, whichever thread calls it.
type within struct {
	redirect.Kernel

	s *site
}

func (w within) Apply(ctx context.Context, p redirect.Plan) error {
	return w.s.machine.Do(func() error { return w.Kernel.Apply(ctx, p) })
}

func (w within) Confirm(ctx context.Context, p redirect.Plan) error {
	return w.s.machine.Do(func() error { return w.Kernel.Confirm(ctx, p) })
}

func (w within) Release(ctx context.Context, p redirect.Plan) error {
	return w.s.machine.Do(func() error { return w.Kernel.Release(ctx, p) })
}

func (w within) Remove(ctx context.Context, p redirect.Plan) error {
	return w.s.machine.Do(func() error { return w.Kernel.Remove(ctx, p) })
}

// proxy is an Envoy whose health the test sets.
type proxy struct {
	mu        sync.Mutex
	listeners redirect.Listeners
	err       error
}

func (p *proxy) is(l redirect.Listeners, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listeners, p.err = l, err
}

func (p *proxy) ask(context.Context) (redirect.Listeners, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.listeners, p.err
}

func TestRulesFollowEnvoy(t *testing.T) {
	t.Parallel()
	each(t, everything(), func(t *testing.T, s *site) {
		const timeout = 2 * time.Second
		envoyIs := &proxy{err: errors.New("Envoy is not ready")}
		keeper := &redirect.Keeper{
			Kernel: within{s.kernel, s}, Envoy: envoyIs.ask, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
			Plan: func(_ context.Context, l redirect.Listeners) (redirect.Plan, error) {
				plan := s.plan
				plan.Timeout, plan.OutboundTo = timeout, l.OutboundTo
				return plan, nil
			},
		}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			keeper.Run(ctx)
		}()
		beside := at(s.beside.IPv4, 80)
		redirected, direct := "machine:15001 for "+beside, "beside:80 for "+beside
		s.as(application).reaches(t, "tcp", beside, direct)
		envoyIs.is(listening, nil)
		s.as(application).comesToReach(t, beside, redirected)

		// Another port of Envoy needs other rules.
		elsewhere := listening
		elsewhere.OutboundTo = 15006
		envoyIs.is(elsewhere, nil)
		s.as(application).comesToReach(t, beside, "machine:15006 for "+beside)
		envoyIs.is(listening, nil)
		s.as(application).comesToReach(t, beside, redirected)

		// Another program flushes all rules, or removes only the jumps to ours.
		for _, command := range map[string][][]string{
			redirect.ByNFT:          {{"nft", "flush", "ruleset"}},
			redirect.ByIPTablesNFT:  {{"nft", "flush", "ruleset"}, {"iptables-nft", "-t", "nat", "-F", "OUTPUT"}},
			redirect.ByIPTablesOnly: {{"iptables-legacy", "-t", "nat", "-F"}, {"iptables-legacy", "-t", "nat", "-F", "OUTPUT"}},
		}[s.kernel.String()] {
			s.machine.Run(command...)
			s.as(application).comesToReach(t, beside, redirected)
		}

		envoyIs.is(redirect.Listeners{}, errors.New("Envoy hangs"))
		s.as(application).comesToReach(t, beside, direct)
		require.ErrorContains(t, keeper.Status().Error, "Envoy hangs")
		envoyIs.is(listening, nil)
		s.as(application).comesToReach(t, beside, redirected)
		require.Contains(t, keeper.Status().Rules, "outbound all ports, inbound ports 8080, 9090 (REDIRECT)")

		end()
		<-ended
		s.as(application).reaches(t, "tcp", beside, direct)
		require.NoError(t, keeper.Close(t.Context()))
		require.NotContains(t, s.rules(), "15001")
	})
}
