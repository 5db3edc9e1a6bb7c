package truth_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
)

// part is what can die.
type part struct {
	name  string
	kill  func()
	start func()
}

func (m *mesh) parts() []part {
	start := func(f func() error) func() {
		return func() { require.NoError(m.t, f()) }
	}
	return []part{
		{"a discovery", m.discoveries[0].kill, start(m.discoveries[0].Start)},
		{"a server", m.servers[0].Kill, start(m.servers[0].Start)},
		{"Postgres", m.postgres.Kill, m.postgres.Start},
		{"the other discovery", m.discoveries[1].kill, start(m.discoveries[1].Start)},
		{"the other server", m.servers[1].Kill, start(m.servers[1].Start)},
	}
}

// death is the end of some parts at the same time.
type death struct {
	parts []part
	after time.Duration // since the beginning of the storm
	away  time.Duration
}

// nextDeath is that of a round: each part dies alone first, later some together.
func (m *mesh) nextDeath(round int, dice *rand.Rand) death {
	parts := m.parts()
	d := death{after: time.Duration(dice.IntN(1000)) * time.Millisecond, away: time.Duration(dice.IntN(3000)) * time.Millisecond}
	if round < len(parts) {
		d.parts = parts[round : round+1]
		return d
	}
	for _, i := range dice.Perm(len(parts))[:2+dice.IntN(len(parts)-1)] {
		d.parts = append(d.parts, parts[i])
	}
	return d
}

// die kills the parts of a death, and starts them again in another order.
func (m *mesh) die(d death) {
	var names []string
	wait.For(context.Background(), d.after)
	for _, p := range d.parts {
		names = append(names, p.name)
		p.kill()
	}
	m.t.Logf("dead for %s: %s", d.away, strings.Join(names, ", "))
	wait.For(context.Background(), d.away)
	for i := range d.parts {
		d.parts[len(d.parts)-1-i].start()
	}
}
