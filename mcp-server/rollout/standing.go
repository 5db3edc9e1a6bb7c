package rollout

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/store/rollout"
)

const (
	// standingKeeps is how long a count serves all readers of metrics. However often they read, the
	// database counts no more often.
	standingKeeps = 5 * time.Second
	// standingWithin bounds how long a count delays readers of metrics.
	standingWithin = 2 * time.Second
)

var (
	proxiesNow = prometheus.NewDesc("pgmesh_rollout_proxies",
		"Proxies of the whole mesh, as in mesh.proxies: synced, sending, refused, silent, or away. Every server says the same.", []string{"state"}, nil)
	oldestBehind = prometheus.NewDesc("pgmesh_rollout_oldest_behind_seconds",
		"For how long there has been a revision that the connected proxy which is furthest behind does not run, those left aside that refuse something. Every server says the same.", nil, nil)
)

// standing counts the proxies of the mesh when metrics are read. While the database is away it has
// none.
type standing struct {
	tally   func(context.Context) ([]rollout.Tally, error)
	overdue func(ctx context.Context, revision int64) (time.Duration, error)

	mu     sync.Mutex
	asked  time.Time
	known  bool // the last count went well
	states map[string]int
	oldest time.Duration
}

func newStanding(of *rollout.Store) *standing {
	return &standing{tally: of.Tally, overdue: of.Overdue}
}

// Describe lists the metrics.
func (*standing) Describe(to chan<- *prometheus.Desc) {
	to <- proxiesNow
	to <- oldestBehind
}

// Collect counts, unless that was done just now.
func (s *standing) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.asked) >= standingKeeps {
		s.known = s.count() == nil
		s.asked = now
	}
	if !s.known {
		return
	}
	for _, state := range shown {
		to <- prometheus.MustNewConstMetric(proxiesNow, prometheus.GaugeValue, float64(s.states[state]), state)
	}
	to <- prometheus.MustNewConstMetric(oldestBehind, prometheus.GaugeValue, s.oldest.Seconds())
}

func (s *standing) count() error {
	ctx, cancel := context.WithTimeout(context.Background(), standingWithin)
	defer cancel()
	tallies, err := s.tally(ctx)
	if err != nil {
		return err
	}
	s.states, s.oldest = map[string]int{}, 0
	for _, t := range tallies {
		s.states[t.State] += t.Count
	}
	if lowest, some := lowestRun(tallies); some {
		s.oldest, err = s.overdue(ctx, lowest)
	}
	return err
}

// lowestRun returns the lowest revision that a connected proxy runs. Those that run none yet have
// just come, and those that refuse something stay where they are until that is mended: their states
// tell of both.
func lowestRun(tallies []rollout.Tally) (lowest int64, some bool) {
	for _, t := range tallies {
		if t.State == rollout.Away || t.State == rollout.Refused || t.Runs == 0 {
			continue
		}
		if !some || t.Runs < lowest {
			lowest, some = t.Runs, true
		}
	}
	return lowest, some
}
