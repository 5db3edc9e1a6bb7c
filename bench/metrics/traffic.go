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

	cpu time.Duration // of both Envoys
}

// turn is what was measured at one turn: as fast as it goes, and at a fixed rate.
type turn struct{ fast, fixed sample }

// lane is a mesh in one mode, with connections that stay open.
type lane struct {
	name   string
	load   load
	envoys []*machine
	turns  []turn
	sent   int
	check  func(ctx context.Context, sent int) error // that all has been counted and logged
}

// floor is the lane of requests that pass no Envoy.
const floor = "no Envoys"

// measureTraffic measures all modes in turns. Each has a mesh of its own, so that a turn can be so
// short that the machine is as busy with other work in one mode as in the next.
func measureTraffic(ctx context.Context, o *options) (*trafficReport, error) {
	r := &trafficReport{options: o, rate: o.rate}
	for _, in := range modes {
		if in != modes[0] && !slices.Contains(o.modes, in.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "a mesh with %s …\n", in.name)
		m, err := startMesh(ctx, o)
		if err != nil {
			return nil, err
		}
		defer m.stop()
		if r.lanes == nil {
			if err := r.open(ctx, floor, m.beside()); err != nil {
				return nil, err
			}
		}
		if err := m.measured(ctx, in, r); err != nil {
			return nil, fmt.Errorf("%s: %w", in.name, err)
		}
	}
	start := usage.Now()
	if err := r.measure(ctx); err != nil {
		return nil, err
	}
	r.use = usage.Now().Since(start)
	return r, nil
}

// measured adds a mesh in a mode to what is measured.
func (m *mesh) measured(ctx context.Context, in mode, r *trafficReport) error {
	if err := m.refusesPlaintext(ctx); err != nil {
		return err
	}
	if err := m.enter(ctx, in); err != nil {
		return err
	}
	before, err := m.counts(ctx)
	if err != nil {
		return err
	}
	if err := r.open(ctx, in.name, m.through(), m.client, m.server); err != nil {
		return err
	}
	r.of(in.name).check = func(ctx context.Context, sent int) error { return m.counted(ctx, in, before, sent) }
	return nil
}

func (r *trafficReport) open(ctx context.Context, name string, to target, envoys ...*machine) error {
	l, err := to.load(ctx, r.options.connections)
	r.lanes = append(r.lanes, &lane{name: name, load: l, envoys: envoys, check: func(context.Context, int) error { return nil }})
	return err
}

// of is the lane of a name.
func (r *trafficReport) of(name string) *lane {
	return r.lanes[slices.IndexFunc(r.lanes, func(l *lane) bool { return l.name == name })]
}

// measure gives each lane its turns, every second time in the opposite order.
func (r *trafficReport) measure(ctx context.Context) error {
	defer func() {
		for _, l := range r.lanes {
			l.load.close()
		}
	}()
	if err := r.fixRate(ctx); err != nil {
		return err
	}
	order := slices.Clone(r.lanes)
	for range r.options.turns {
		for _, l := range order {
			if err := l.turn(ctx, r); err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
		}
		slices.Reverse(order)
	}
	for _, l := range r.lanes {
		if err := l.check(ctx, l.sent); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return nil
}

// fixRate finds a rate below what there can be, unless there is one already.
func (r *trafficReport) fixRate(ctx context.Context) error {
	for _, l := range r.lanes { // the first answers take longer everywhere
		a, err := l.ask(ctx, max(r.options.warmup, r.options.lasting), 0)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		if l.name == modes[0].name && r.rate == 0 {
			r.rate = max(1, int(a.rate()/2))
		}
	}
	return nil
}

func (l *lane) turn(ctx context.Context, r *trafficReport) (err error) {
	var t turn
	if _, err := l.ask(ctx, r.options.warmup, 0); err != nil {
		return err
	}
	if t.fast, err = l.ask(ctx, r.options.lasting, 0); err != nil {
		return err
	}
	t.fixed, err = l.ask(ctx, r.options.lasting, r.rate)
	l.turns = append(l.turns, t)
	return err
}

func (l *lane) ask(ctx context.Context, lasting time.Duration, rate int) (s sample, err error) {
	before := l.cpu()
	s.answered, err = l.load.ask(ctx, lasting, rate)
	s.cpu = l.cpu() - before
	l.sent += len(s.took)
	return s, err
}

func (l *lane) cpu() (all time.Duration) {
	for _, m := range l.envoys {
		all += usage.CPUOf(m.envoy)
	}
	return all
}

// refusesPlaintext checks that the server answers nobody without a certificate, to be sure that
// mutual TLS is measured.
func (m *mesh) refusesPlaintext(ctx context.Context) error {
	if err := (target{address: at(serverIP, m.port), host: host}).once(ctx); err == nil {
		return errors.New("the server's Envoy answers who has no certificate")
	}
	return nil
}
