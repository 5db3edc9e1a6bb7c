package push

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// journal records which batches wait, which push is under way, and what the last pushes did: for
// metrics, and for people who ask why a change is not there yet. The engine calls its methods
// during a push; anybody may read it at any time.
type journal struct {
	mu      sync.Mutex
	waiting []arrival
	known   string
	now     *Push           // under way; nil if none is
	work    map[string]Work // by type, since the last flush
	last    []Push          // the newest is the last
	metrics journalMetrics
}

// arrival is a batch that waits for its push.
type arrival struct {
	revision      string
	committed, at time.Time
	changes       int
}

// Push describes how all proxies were brought from one mesh to the next.
type Push struct {
	Revision string
	Batches  int // how many it pushed at once
	Changes  int // how many resources of the mesh they changed
	// Committed is when the oldest of these changes was committed, by the clock of the source's
	// database. It is zero if the source does not tell.
	Committed time.Time
	Arrived   time.Time // when discovery received the oldest of them
	Begun     time.Time
	Took      time.Duration // until all proxies were offered what is new to them; 0 while it is under way
	Work      []Work        // sorted by type
	Proxies   int           // how many it has something new for

	// What was sent and answered because of it so far. Changes that came while a proxy was busy are
	// sent along with it, and count here.
	Messages, Bytes int
	Acks, Nacks     int
	LastAck         time.Duration // after its arrival

	news *served.News // identifies it in the answers of proxies
}

// Work sums up the translation of one type.
type Work struct {
	TypeURL   string
	Took      time.Duration
	Resources int
	Bytes     int
}

// Queue describes what the engine has to do.
type Queue struct {
	Waiting int       // batches that no push has begun on
	Since   time.Time // when the oldest of them came
	Known   string    // the newest revision that came
	Pushed  string    // the newest revision that all proxies were offered
	Current *Push     // under way; nil if none is
}

// keptPushes is how many finished pushes the journal keeps.
const keptPushes = 50

// heard records that a batch has come.
func (j *journal) heard(revision int64, committed time.Time, changes int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.known = strconv.FormatInt(revision, 10)
	j.waiting = append(j.waiting, arrival{j.known, committed, time.Now(), changes})
	j.metrics.batches.Inc()
	j.metrics.waiting.Set(float64(len(j.waiting)))
}

// begin begins a push of all batches up to the last one of a revision. It returns the news that
// proxies are offered with it.
func (j *journal) begin(revision string) *served.News {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := len(j.waiting)
	for n > 0 && j.waiting[n-1].revision != revision {
		n--
	}
	now := time.Now()
	j.now = &Push{Revision: revision, Begun: now, Arrived: now, Batches: n}
	if n > 0 {
		j.now.Arrived = j.waiting[0].at
	}
	for _, a := range j.waiting[:n] {
		j.now.Changes += a.changes
		if j.now.Committed.IsZero() || !a.committed.IsZero() && a.committed.Before(j.now.Committed) {
			j.now.Committed = a.committed
		}
	}
	j.waiting = slices.Clone(j.waiting[n:])
	j.metrics.waiting.Set(float64(len(j.waiting)))
	j.metrics.merged.Add(float64(max(0, n-1)))
	j.now.news = &served.News{Committed: j.now.Committed, Arrived: j.now.Arrived}
	return j.now.news
}

// translated records how long it took to translate a type, for a push or for a proxy that has just
// connected.
func (j *journal) translated(typeURL string, since time.Time, m made) {
	took := time.Since(since)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.work == nil {
		j.work = map[string]Work{}
	}
	w := j.work[typeURL]
	w.TypeURL, w.Took, w.Resources = typeURL, w.Took+took, w.Resources+len(m.resources)
	for _, r := range m.resources {
		w.Bytes += len(r.Body.GetValue())
	}
	j.work[typeURL] = w
}

// joined ends the record of what was translated for a proxy that has just connected.
func (j *journal) joined() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.flush()
}

// end ends the push. It has offered something new to this number of proxies.
func (j *journal) end(proxies int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	done := j.now
	j.now = nil
	done.Took, done.Work, done.Proxies = time.Since(done.Begun), j.flush(), proxies
	if len(j.last) == keptPushes {
		j.last = j.last[1:]
	}
	j.last = append(j.last, *done)
	j.metrics.pushes.Observe(done.Took.Seconds())
}

// flush passes the recorded work to the metrics, and returns it.
func (j *journal) flush() []Work {
	var all []Work
	for _, typeURL := range types {
		if w, some := j.work[typeURL]; some {
			all = append(all, w)
			j.metrics.translate.WithLabelValues(Label(typeURL)).Observe(w.Took.Seconds())
		}
	}
	clear(j.work)
	return all
}

// Heard records that a batch has come. A later Update brings it, alone or with others.
func (e *Engine) Heard(revision int64, committed time.Time, changes int) {
	e.journal.heard(revision, committed, changes)
}

// Pushes returns what the engine has to do, and the last pushes, the newest first.
func (e *Engine) Pushes() (Queue, []Push) { return e.journal.tell() }

// tell copies what the journal has, for the caller to keep.
func (j *journal) tell() (q Queue, last []Push) {
	j.mu.Lock()
	defer j.mu.Unlock()
	q = Queue{Waiting: len(j.waiting), Known: j.known}
	if len(j.waiting) > 0 {
		q.Since = j.waiting[0].at
	}
	if j.now != nil {
		now := *j.now
		now.Work = slices.SortedFunc(maps.Values(j.work), func(a, b Work) int { return slices.Index(types, a.TypeURL) - slices.Index(types, b.TypeURL) })
		q.Current = &now
	}
	last = slices.Clone(j.last)
	slices.Reverse(last)
	if len(last) > 0 {
		q.Pushed = last[0].Revision
	}
	return q, last
}

// journalMetrics are the metrics of the queue and of pushes.
type journalMetrics struct {
	batches, merged prometheus.Counter
	waiting         prometheus.Gauge
	pushes          prometheus.Histogram
	translate       *prometheus.HistogramVec
}

// durationBuckets reach from a tenth of a millisecond to a minute.
var durationBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

func newJournal(metrics prometheus.Registerer) *journal {
	m := journalMetrics{
		batches: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pgmesh_discovery_batches_total", Help: "Batches of changes that have come from the sources.",
		}),
		merged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pgmesh_discovery_merged_batches_total", Help: "Batches that had no push of their own, because a later one had come meanwhile.",
		}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pgmesh_discovery_waiting_batches", Help: "Batches that have come and are not being pushed yet.",
		}),
		pushes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pgmesh_discovery_push_seconds", Help: "Time to translate what a push changes, for all proxies, and to offer it to them.", Buckets: durationBuckets,
		}),
		translate: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pgmesh_discovery_translate_seconds", Help: "Time to translate what a push changes of a type, or a proxy that comes needs, by type.", Buckets: durationBuckets,
		}, []string{"type"}),
	}
	metrics.MustRegister(m.batches, m.merged, m.waiting, m.pushes, m.translate)
	return &journal{metrics: m}
}
