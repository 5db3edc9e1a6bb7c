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

// lane is a mode. Its turns are measured at one of its meshes after the other: two Envoys that do the
// same differ by several percent, for as long as they run.
type lane struct {
	name  string
	paths []*path
	turns []turn
}

// path leads through a mesh, with connections that stay open.
type path struct {
	load   load
	envoys []*machine
	sent   int
	check  func(ctx context.Context, sent int) error // that all has been counted and logged
}

// floor is the lane of requests that pass no Envoy.
const floor = "no Envoys"

// measureTraffic measures all modes in turns. Each has meshes of its own, so that a turn can be so
// short that the machine is as busy with other work in one mode as in the next.
func measureTraffic(ctx context.Context, o *options) (*trafficReport, error) {
	r := &trafficReport{options: o, rate: o.rate}
	for _, in := range modes {
		if in != modes[0] && !slices.Contains(o.modes, in.name) {
			continue
		}
		for n := range o.meshes {
			fmt.Fprintf(os.Stderr, "mesh %d of %d with %s …\n", n+1, o.meshes, in.name)
			m, err := startMesh(ctx, o)
			if err != nil {
				return nil, err
			}
			defer m.stop()
			if r.lanes == nil {
				if err := r.open(ctx, floor, m.beside(), func(context.Context, int) error { return nil }); err != nil {
					return nil, err
				}
			}
			if err := m.measured(ctx, in, r); err != nil {
				return nil, fmt.Errorf("%s: %w", in.name, err)
			}
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
	check := func(ctx context.Context, sent int) error { return m.counted(ctx, in, before, sent) }
	return r.open(ctx, in.name, m.through(), check, m.client, m.server)
}

// open adds a path to the lane of a name.
func (r *trafficReport) open(ctx context.Context, name string, to target, check func(ctx context.Context, sent int) error, envoys ...*machine) error {
	opened, err := to.load(ctx, r.options.connections)
	l := r.of(name)
	if l == nil {
		l = &lane{name: name}
		r.lanes = append(r.lanes, l)
	}
	l.paths = append(l.paths, &path{load: opened, envoys: envoys, check: check})
	return err
}

// of is the lane of a name; nil if there is none.
func (r *trafficReport) of(name string) *lane {
	for _, l := range r.lanes {
		if l.name == name {
			return l
		}
	}
	return nil
}

// measure gives each lane its turns, every second time in the opposite order.
func (r *trafficReport) measure(ctx context.Context) error {
	defer func() {
		for _, l := range r.lanes {
			for _, p := range l.paths {
				p.load.close()
			}
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
		for _, p := range l.paths {
			if err := p.check(ctx, p.sent); err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
		}
	}
	return nil
}

// fixRate finds a rate below what there can be, unless there is one already.
func (r *trafficReport) fixRate(ctx context.Context) error {
	for _, l := range r.lanes { // the first answers take longer everywhere
		for _, p := range l.paths {
			a, err := p.ask(ctx, max(r.options.warmup, r.options.lasting), 0)
			if err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
			if l.name == modes[0].name && r.rate == 0 {
				r.rate = max(1, int(a.rate()/2))
			}
		}
	}
	return nil
}

func (l *lane) turn(ctx context.Context, r *trafficReport) (err error) {
	var t turn
	p := l.paths[len(l.turns)%len(l.paths)]
	if _, err := p.ask(ctx, r.options.warmup, 0); err != nil {
		return err
	}
	if t.fast, err = p.ask(ctx, r.options.lasting, 0); err != nil {
		return err
	}
	t.fixed, err = p.ask(ctx, r.options.lasting, r.rate)
	l.turns = append(l.turns, t)
	return err
}

func (p *path) ask(ctx context.Context, lasting time.Duration, rate int) (s sample, err error) {
	before := p.cpu()
	s.answered, err = p.load.ask(ctx, lasting, rate)
	s.cpu = p.cpu() - before
	p.sent += len(s.took)
	return s, err
}

func (p *path) cpu() (all time.Duration) {
	for _, m := range p.envoys {
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
