package push

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// answers observes what is sent to proxies and what they answer, and measures how long a change
// takes to reach them. What a proxy is sent when it connects is no change, and is not measured.
type answers struct {
	*journal

	committed, arrived *prometheus.HistogramVec
	reached            map[string]Reached // by the limit's name; guarded by the journal's lock

	watcher  Watcher
	refusing func(s *ads.Stream, typeURL string) // called when a proxy refuses more or fewer resources of a type
}

func newAnswers(j *journal, metrics prometheus.Registerer) *answers {
	// A change takes a few milliseconds. A proxy that needs a minute is lost, or does not answer at
	// all.
	buckets := []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	a := &answers{
		journal: j, reached: map[string]Reached{},
		committed: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pgmesh_discovery_commit_to_ack_seconds", Buckets: buckets,
			Help: "Time from the commit of a change, by the clock of its database, until a proxy has accepted what it comes to, by type. " +
				"Where the source does not tell of commits there is none.",
		}, []string{"type"}),
		arrived: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pgmesh_discovery_arrival_to_ack_seconds", Buckets: buckets,
			Help: "Time from when discovery heard of a change until a proxy has accepted what it comes to, by type.",
		}, []string{"type"}),
	}
	metrics.MustRegister(a.committed, a.arrived)
	return a
}

// Acked measures the time of a change from its commit, and from its arrival, until this proxy
// accepted it.
func (a *answers) Acked(_ *ads.Stream, v ads.Verdict) {
	if v.News == nil {
		return
	}
	now, label := time.Now(), Label(v.TypeURL)
	took := now.Sub(v.News.Arrived)
	a.arrived.WithLabelValues(label).Observe(took.Seconds())
	if !v.News.Committed.IsZero() {
		a.committed.WithLabelValues(label).Observe(max(0, now.Sub(v.News.Committed).Seconds())) // the database's clock may be ahead
	}
	a.journal.of(v.News, func(p *Push) {
		p.Acks++
		p.LastAck = took
	})
}

// Nacked counts a refusal of a change.
func (a *answers) Nacked(_ *ads.Stream, v ads.Verdict) {
	a.watcher.Refused()
	a.journal.of(v.News, func(p *Push) { p.Nacks++ })
}

// Sent counts a message that tells of a change.
func (a *answers) Sent(_ *ads.Stream, m ads.Message) {
	a.journal.of(m.News, func(p *Push) {
		p.Messages++
		p.Bytes += m.Bytes
	})
}

// of calls change with the push that has these news, if the journal still has it.
func (j *journal) of(news *served.News, change func(*Push)) {
	if news == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.now != nil && j.now.news == news {
		change(j.now)
		return
	}
	for i := len(j.last) - 1; i >= 0; i-- {
		if j.last[i].news == news {
			change(&j.last[i])
			return
		}
	}
}

// Reached counts how often a limit was reached.
type Reached struct {
	Times      int           // a proxy had to wait
	Waited     time.Duration // in total
	TurnedAway int           // refused for good
}

// Limited counts how often limits are reached.
func (a *answers) Limited(limit string, waited time.Duration, turnedAway bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.reached[limit]
	if turnedAway {
		r.TurnedAway++
	} else {
		r.Times, r.Waited = r.Times+1, r.Waited+waited
	}
	a.reached[limit] = r
}

// Reached returns how often the limit of this name was reached.
func (e *Engine) Reached(limit string) Reached {
	e.journal.mu.Lock()
	defer e.journal.mu.Unlock()
	return e.answers.reached[limit]
}

// The other events of [ads.Observer] matter neither for changes nor for limits.

// Opened does nothing.
func (*answers) Opened(*ads.Stream) {}

// Closed does nothing.
func (*answers) Closed(*ads.Stream) {}

// Refusing calls the engine, which logs the refusal.
func (a *answers) Refusing(s *ads.Stream, typeURL string, _ int) {
	a.watcher.Refused()
	a.refusing(s, typeURL)
}

// Unreceived does nothing.
func (*answers) Unreceived(*ads.Stream, string, int) {}
