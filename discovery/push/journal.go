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

// journal knows what the engine has heard of, has in hand and has done: for metrics, and for people who ask why a change is not there yet.
// Its methods are called by the engine, in the course of a push; what it knows may be asked for at any time.
type journal struct {
	mu      sync.Mutex
	waiting []arrival
	known   string
	now     *Push           // that is under way; nil for none
	work    map[string]Work // since the last flush, by type
	last    []Push          // the newest at the end
	metrics journalMetrics
}

// arrival is a batch that is waiting for its push.
type arrival struct {
	revision      string
	committed, at time.Time
	changes       int
}

// Push is what brought all proxies from one state of the mesh to another.
type Push struct {
	Revision string
	Batches  int // that it brought at once
	Changes  int // of resources of the mesh
	// Committed is when the oldest of those was, by the clock of the source's database; zero if the source does not tell.
	Committed time.Time
	Arrived   time.Time // when discovery heard of the oldest
	Begun     time.Time
	Took      time.Duration // until all proxies were offered what is new to them; 0 while it is under way
	Work      []Work        // in the order of types
	Proxies   int           // that it has news for

	// What went out and came back because of it, until now. What came while a proxy was busy is sent in one with it, and counts here.
	Messages, Bytes int
	Acks, Nacks     int
	LastAck         time.Duration // since it arrived

	news *served.News // by which proxies' answers are known
}

// Work is what was translated of one type.
type Work struct {
	TypeURL   string
	Took      time.Duration
	Resources int
	Bytes     int
}

// Queue is what the engine has before it.
type Queue struct {
	Waiting int       // batches
	Since   time.Time // when the oldest of them came
	Known   string    // the newest revision that came
	Pushed  string    // the newest that all proxies were offered
	Current *Push     // that is under way; nil for none
}

// keptPushes is how many pushes are remembered.
const keptPushes = 50

// heard takes in that a batch has come.
func (j *journal) heard(revision int64, committed time.Time, changes int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.known = strconv.FormatInt(revision, 10)
	j.waiting = append(j.waiting, arrival{j.known, committed, time.Now(), changes})
	j.metrics.batches.Inc()
	j.metrics.waiting.Set(float64(len(j.waiting)))
}

// begin begins the push of everything up to the last batch of a revision. It returns what proxies are told of it.
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

// translated takes in how long it took to translate a part, as part of a push or for a proxy that has just come.
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

// joined takes in that what was translated was for a proxy that has just come.
func (j *journal) joined() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.flush()
}

// end ends the push that was begun: so many proxies were offered something new.
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

// flush has the metrics tell of the work that was done, and returns it.
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

// Heard takes in that a batch has come, which Update will be given alone or with others.
func (e *Engine) Heard(revision int64, committed time.Time, changes int) {
	e.journal.heard(revision, committed, changes)
}

// Pushes tells what is before the engine, and of the last pushes, the newest first.
func (e *Engine) Pushes() (Queue, []Push) { return e.journal.tell() }

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

// journalMetrics are those of the queue and of the pushes.
type journalMetrics struct {
	batches, merged prometheus.Counter
	waiting         prometheus.Gauge
	pushes          prometheus.Histogram
	translate       *prometheus.HistogramVec
}

// quick is for what takes from a tenth of a millisecond to a minute.
var quick = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

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
			Name: "pgmesh_discovery_push_seconds", Help: "Time to translate what a push changes, for all proxies, and to offer it to them.", Buckets: quick,
		}),
		translate: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pgmesh_discovery_translate_seconds", Help: "Time to translate what a push changes of a type, or a proxy that comes needs, by type.", Buckets: quick,
		}, []string{"type"}),
	}
	metrics.MustRegister(m.batches, m.merged, m.waiting, m.pushes, m.translate)
	return &journal{metrics: m}
}
