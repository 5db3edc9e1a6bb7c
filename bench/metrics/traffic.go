package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

// sample is what was measured of one load.
type sample struct {
	answered

	client, server time.Duration // processor time of each Envoy
}

// each is the processor time of both Envoys for a request.
func (s sample) each() time.Duration {
	return (s.client + s.server) / time.Duration(max(1, len(s.took)))
}

// turn is what was measured in a mode: as fast as it goes, and at a fixed rate.
type turn struct{ fast, fixed sample }

// floor is the mode of requests that pass no Envoy.
const floor = "no Envoys"

// measureTraffic measures all modes in turns, every second time in the opposite order: what changes
// on the machine from one to the next is not always for the same one.
func (m *mesh) measureTraffic(ctx context.Context) (*trafficReport, error) {
	if err := m.refusesPlaintext(ctx); err != nil {
		return nil, err
	}
	r := &trafficReport{options: m.options, turns: map[string][]turn{}, rate: m.options.rate}
	order, start := slices.Clone(modes), usage.Now()
	for i := range m.options.turns {
		fmt.Fprintf(os.Stderr, "turn %d of %d …\n", i+1, m.options.turns)
		if err := m.turnOf(ctx, r, order); err != nil {
			return nil, err
		}
		slices.Reverse(order)
	}
	r.use = usage.Now().Since(start)
	return r, nil
}

func (m *mesh) turnOf(ctx context.Context, r *trafficReport, order []mode) error {
	if err := m.fixRate(ctx, r); err != nil {
		return err
	}
	t, err := m.measure(ctx, m.beside(), r.rate, func(int) error { return nil })
	if err != nil {
		return fmt.Errorf("%s: %w", floor, err)
	}
	r.turns[floor] = append(r.turns[floor], t)
	for _, in := range order {
		if err := m.enter(ctx, in); err != nil {
			return err
		}
		before, err := m.counts(ctx)
		if err != nil {
			return err
		}
		t, err := m.measure(ctx, m.through(), r.rate, func(sent int) error { return m.counted(ctx, in, before, sent) })
		if err != nil {
			return fmt.Errorf("%s: %w", in.name, err)
		}
		r.turns[in.name] = append(r.turns[in.name], t)
	}
	return nil
}

// fixRate finds a rate below what there can be, unless there is one already.
func (m *mesh) fixRate(ctx context.Context, r *trafficReport) error {
	if r.rate > 0 {
		return nil
	}
	if err := m.enter(ctx, modes[0]); err != nil {
		return err
	}
	l, err := m.through().load(ctx, m.options.connections)
	if err != nil {
		return err
	}
	defer l.close()
	a, err := l.ask(ctx, m.options.lasting, 0)
	r.rate = max(1, int(a.rate()/2))
	return err
}

// measure sends requests over new connections, and has all of them checked, those of the warm-up
// too.
func (m *mesh) measure(ctx context.Context, to target, rate int, check func(sent int) error) (t turn, err error) {
	l, err := to.load(ctx, m.options.connections)
	if err != nil {
		return turn{}, err
	}
	defer l.close()
	warm, err := l.ask(ctx, m.options.warmup, 0)
	if err != nil {
		return turn{}, err
	}
	if t.fast, err = m.sample(ctx, l, m.options.lasting, 0); err != nil {
		return turn{}, err
	}
	if t.fixed, err = m.sample(ctx, l, m.options.lasting, rate); err != nil {
		return turn{}, err
	}
	return t, check(len(warm.took) + len(t.fast.took) + len(t.fixed.took))
}

func (m *mesh) sample(ctx context.Context, l load, lasting time.Duration, rate int) (s sample, err error) {
	client, server := usage.CPUOf(m.client.envoy), usage.CPUOf(m.server.envoy)
	s.answered, err = l.ask(ctx, lasting, rate)
	s.client, s.server = usage.CPUOf(m.client.envoy)-client, usage.CPUOf(m.server.envoy)-server
	return s, err
}

// refusesPlaintext checks that the server answers nobody without a certificate, to be sure that
// mutual TLS is measured.
func (m *mesh) refusesPlaintext(ctx context.Context) error {
	if err := (target{address: at(serverIP, m.port), host: host}).once(ctx); err == nil {
		return errors.New("the server's Envoy answers who has no certificate")
	}
	return nil
}
