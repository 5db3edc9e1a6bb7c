// Package reload keeps a value up to date with the files it is made from: certificates, lists,
// tokens. If new files are unusable, the value made from the last good ones stays in force, and a
// log line and a metric report it.
package reload

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options are the settings of a Value.
type Options struct {
	What    string // what the files are, for logs and metrics: "server certificate"
	Log     *slog.Logger
	Metrics *Metrics

	// Changed, if not nil, is called after the value has changed. It is called with the Value's
	// lock held.
	Changed func()
}

// Metrics count reloads. A program has one set of them.
type Metrics struct {
	failing *prometheus.GaugeVec
	loads   *prometheus.CounterVec
}

// Names are what the metrics are called in one program.
type Names struct{ Unusable, Loaded string }

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer, names Names) *Metrics {
	m := &Metrics{
		failing: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: names.Unusable, Help: "1 while files as they are now cannot be used, and what was made of earlier ones is in force.",
		}, []string{"what"}),
		loads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: names.Loaded, Help: "How often files were read because they had changed, by whether they could be used.",
		}, []string{"what", "outcome"}),
	}
	r.MustRegister(m.failing, m.loads)
	return m
}

// Value is a value made from files.
type Value[T any] struct {
	options Options
	paths   []string
	read    func(contents [][]byte) (T, error)
	current atomic.Pointer[T]

	mu        sync.Mutex
	seen      [sha256.Size]byte // the digest of the contents that were tried last
	err       error             // why they cannot be used
	checkedAt time.Time
}

// Load creates a value from files, which must be usable the first time.
func Load[T any](o Options, read func(contents [][]byte) (T, error), paths ...string) (*Value[T], error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	v := &Value[T]{options: o, paths: paths, read: read}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.look(); err != nil {
		return nil, fmt.Errorf("%s: %w", o.What, err)
	}
	return v, nil
}

// Get returns the value made from the last good files.
func (v *Value[T]) Get() T { return *v.current.Load() }

// checkInterval bounds how long a changed file goes unnoticed. Files are read and compared:
// modification times are coarse, and folders of symbolic links are swapped.
const checkInterval = time.Second

// Run checks the files periodically until ctx ends.
func (v *Value[T]) Run(ctx context.Context) error {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			v.Look()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Fresh is Get for programs without Run: it checks the files first, unless they were checked within
// checkInterval.
func (v *Value[T]) Fresh() T {
	v.mu.Lock()
	stale := time.Since(v.checkedAt) >= checkInterval
	v.mu.Unlock()
	if stale {
		v.Look()
	}
	return v.Get()
}

// Look updates the value if the files have changed.
func (v *Value[T]) Look() {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.err
	if err := v.look(); err != nil && !same(before, err) {
		v.options.Log.Error("cannot use new files; what there was before stays in force", "what", v.options.What, "error", err)
	}
}

// look checks the files and returns what is wrong with them, also if they have not changed.
func (v *Value[T]) look() error {
	v.checkedAt = time.Now()
	contents, stamp, err := v.contents()
	if err == nil && stamp == v.seen {
		return v.err
	}
	var made T
	if err == nil {
		made, err = v.read(contents)
	}
	if v.seen = stamp; err == nil || !same(v.err, err) {
		v.count(err)
	}
	if v.err = err; err != nil {
		return err
	}
	if first := v.current.Swap(&made) == nil; first {
		return nil
	}
	v.options.Log.Info("took over new files", "what", v.options.What)
	if v.options.Changed != nil {
		v.options.Changed()
	}
	return nil
}

func same(a, b error) bool { return a != nil && b != nil && a.Error() == b.Error() }

// contents reads the files. If one is unreadable the stamp is zero, so whatever is readable next
// counts as new.
func (v *Value[T]) contents() (contents [][]byte, stamp [sha256.Size]byte, err error) {
	digest := sha256.New()
	for _, path := range v.paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, stamp, err
		}
		fmt.Fprintf(digest, "%d ", len(content))
		digest.Write(content)
		contents = append(contents, content)
	}
	return contents, [sha256.Size]byte(digest.Sum(nil)), nil
}

func (v *Value[T]) count(err error) {
	m, failing, outcome := v.options.Metrics, 0.0, "used"
	if err != nil {
		failing, outcome = 1, "unusable"
	}
	if m != nil {
		m.failing.WithLabelValues(v.options.What).Set(failing)
		m.loads.WithLabelValues(v.options.What, outcome).Inc()
	}
}
