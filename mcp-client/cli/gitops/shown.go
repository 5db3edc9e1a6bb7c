package gitops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/monitor"
)

// shown is what is told to monitoring.
type shown struct {
	registry *prometheus.Registry
	commit   *prometheus.GaugeVec
	last     prometheus.Gauge
	failures prometheus.Counter
	drift    prometheus.Gauge

	mu      sync.Mutex
	applied string
	failed  error
}

func newShown() *shown {
	const prefix = "pgmesh_sync_"
	s := &shown{
		registry: monitor.NewRegistry(),
		commit:   prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "commit_info", Help: "The commit that the mesh was made to be."}, []string{"commit"}),
		last:     prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "last_success_timestamp_seconds", Help: "When the mesh was last held against the newest commit."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "failures_total", Help: "How often the newest commit could not be read, or is not in the mesh because something in it is wrong."}),
		drift:    prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "drifted_resources", Help: "How many resources somebody has changed in the mesh beside the repository."}),
	}
	s.registry.MustRegister(s.commit, s.last, s.failures, s.drift)
	return s
}

// passed tells how a pass ended.
func (s *shown) passed(applied string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed = err; err != nil {
		s.failures.Inc()
		return
	}
	if s.last.SetToCurrentTime(); applied != s.applied {
		s.commit.Reset()
		s.commit.WithLabelValues(applied).Set(1)
		s.applied = applied
	}
}

func (s *shown) drifted(resources int) { s.drift.Set(float64(resources)) }

// ready says what the mesh is.
func (s *shown) ready() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.failed != nil:
		return "", s.failed
	case s.applied == "":
		return "", errors.New("no commit is in the mesh yet")
	}
	return "commit " + s.applied, nil
}

// serve serves the pages, until they are stopped. Without an address it serves none.
func (s *shown) serve(ctx context.Context, address string, told io.Writer) (stop func(), err error) {
	if address == "" {
		return func() {}, nil
	}
	l, err := listen.TCP("http", address)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(told, "pages for monitoring: http://%s/readyz and /metrics\n", l.Addr())
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = monitor.Serve(ctx, l, monitor.Access{}, s.registry, s.ready)
	}()
	return func() { cancel(); <-served }, nil
}
