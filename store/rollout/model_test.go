package rollout_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/rollout"
)

// world is what some discoveries have reported, told in the plainest way.
type world struct {
	*bench
	random    *rand.Rand
	resources map[string]int64 // and the revision of each
	reports   []*discovery
	began     time.Time
}

type discovery struct {
	keeper    *rollout.Keeper
	id        int64
	number    int64
	name      string
	revision  int64
	proxies   map[uint64]*rollout.Proxy
	audiences map[string]rollout.Audience
	rollouts  map[int64]rollout.Rollout
}

func (w *world) discovers(n int) *discovery {
	w.t.Helper()
	k := w.keep(fmt.Sprint("server-", n))
	name := fmt.Sprint("discovery-", n)
	id, err := k.Begin(w.t.Context(), name)
	require.NoError(w.t, err)
	return &discovery{keeper: k, id: id, name: name, proxies: map[uint64]*rollout.Proxy{}, audiences: map[string]rollout.Audience{}, rollouts: map[int64]rollout.Rollout{}}
}

func (w *world) pick() string { return fmt.Sprint("vs-", w.random.IntN(4)) }

// changes commits a change of a resource.
func (w *world) changes() {
	name := w.pick()
	w.db.Put(name, fmt.Sprintf("%s-%d.example", name, w.db.Newest()))
	w.resources[name] = w.db.Newest()
}

// report has a discovery say something new: of proxies, audiences, its revision and rollouts.
func (w *world) report(d *discovery) {
	w.t.Helper()
	d.number++
	m := rollout.Message{Number: d.number, Revision: max(d.revision, w.db.Newest()-w.random.Int64N(2))}
	after := d.revision
	d.revision = m.Revision
	for range w.random.IntN(4) {
		stream := uint64(w.random.IntN(6))
		p := w.proxy(d, stream)
		if slices.ContainsFunc(m.Proxies, func(o rollout.Proxy) bool { return o.Stream == stream }) {
			continue
		}
		m.Proxies = append(m.Proxies, *p)
		d.proxies[stream] = p
	}
	if gone := uint64(w.random.IntN(12)); !slices.ContainsFunc(m.Proxies, func(o rollout.Proxy) bool { return o.Stream == gone }) {
		m.Gone = []uint64{gone}
		delete(d.proxies, gone)
	}
	if w.random.IntN(2) == 0 {
		a := concerning(w.pick(), 9)
		a.Everyone, a.Circles = w.random.IntN(4) == 0, nil
		for circle := range uint32(3) {
			if w.random.IntN(2) == 0 {
				a.Circles = append(a.Circles, circle)
			}
		}
		m.Audiences, d.audiences[a.Name] = []rollout.Audience{a}, a
	}
	if d.revision > after {
		d.rollouts[d.revision] = rollout.Rollout{Revision: d.revision, After: after, Began: w.began}
	}
	for revision, r := range d.rollouts {
		if r.Parts == nil || w.random.IntN(3) == 0 {
			d.rollouts[revision] = w.goesOn(r)
			m.Rollouts = append(m.Rollouts, d.rollouts[revision])
		}
	}
	require.NoError(w.t, d.keeper.Report(w.t.Context(), d.id, m))
}

// proxy is the next state of a stream, described if it is new.
func (w *world) proxy(d *discovery, stream uint64) *rollout.Proxy {
	p := rollout.Proxy{Stream: stream, State: rollout.Synced, Circle: w.random.Uint32N(3)}
	if d.proxies[stream] == nil {
		p.Description = of(stream, fmt.Sprint(d.name, "-", stream)).Description
	}
	switch w.random.IntN(4) {
	case 0:
		p.State, p.Sent, p.Runs = rollout.Sending, d.revision, max(0, d.revision-w.random.Int64N(3))
	case 1:
		p = refusing(stream, d.revision, max(0, d.revision-w.random.Int64N(2)), w.pick(), w.pick())
		p.Circle = w.random.Uint32N(3)
		if d.proxies[stream] == nil {
			p.Description = of(stream, fmt.Sprint(d.name, "-", stream)).Description
		}
	}
	return &p
}

// goesOn is a rollout that has come somewhere.
func (w *world) goesOn(r rollout.Rollout) rollout.Rollout {
	r.Parts = []rollout.Part{}
	for _, namespace := range []string{"shop", "web"}[:w.random.IntN(3)] {
		p := rollout.Part{Namespace: namespace, Ran: w.random.Uint32N(4), Refused: w.random.Uint32N(3), Away: w.random.Uint32N(3)}
		p.Concerned = p.Ran + p.Refused + p.Away + w.random.Uint32N(3)
		for range p.Ran {
			p.Took = append(p.Took, w.random.Uint64N(50)*1000)
		}
		slices.Sort(p.Took)
		r.Parts = append(r.Parts, p)
	}
	return r
}

// status is what a resource has come to: whom it concerns, who runs it, and who refuses it.
func (w *world) status(name string, revision int64) string {
	concerned, running, refusing := 0, 0, 0
	for _, d := range w.reports {
		a := d.audiences[name]
		for _, p := range d.proxies {
			refuses := slices.ContainsFunc(p.Refusals, func(f rollout.Refusal) bool {
				return slices.ContainsFunc(f.Sources, func(s rollout.Source) bool { return s.Resource == virtualService(name) })
			})
			if !refuses && !a.Everyone && !slices.Contains(a.Circles, p.Circle) {
				continue
			}
			runs := p.Runs
			if p.State == rollout.Synced {
				runs = d.revision
			}
			concerned++
			switch {
			case refuses:
				refusing++
			case runs >= revision:
				running++
			}
		}
	}
	return fmt.Sprint(name, " ", revision, " ", concerned, " ", running, " ", refusing)
}

// progress is how far a revision has come, by the first push of each discovery that had it.
func (w *world) progress(revision int64) string {
	var concerned, ran, refused, open, away uint32
	var took []int64
	for _, d := range w.reports {
		var of *rollout.Rollout
		for _, r := range d.rollouts {
			if r.After < revision && revision <= r.Revision {
				of = &r
			}
		}
		if of == nil {
			continue
		}
		for _, p := range of.Parts {
			concerned, ran, refused, away = concerned+p.Concerned, ran+p.Ran, refused+p.Refused, away+p.Away
			for _, t := range p.Took {
				took = append(took, int64(t/1000))
			}
		}
	}
	open = concerned - ran - refused - away
	line := fmt.Sprintf("%d t %d %d %d %d %d |", revision, concerned, ran, refused, open, away)
	if slices.Sort(took); len(took) > 0 {
		line += fmt.Sprintf(" %d %d %d", took[0], took[(len(took)-1)/2], took[len(took)-1])
	}
	return line
}

// Whatever discoveries report in whatever order, the views show what it adds up to.
func TestViewsAreWhatReportsAddUpTo(t *testing.T) {
	t.Parallel()
	seed := storetest.Seed(t)
	w := &world{bench: newBench(t), random: rand.New(rand.NewPCG(seed, 1)), resources: map[string]int64{}, began: began()}
	w.keeper.Close(t.Context())
	w.reports = []*discovery{w.discovers(0), w.discovers(1)}
	for range 40 {
		if w.random.IntN(3) == 0 {
			w.changes()
		}
		w.report(w.reports[w.random.IntN(2)])
		var statuses, rollouts []string
		for name, revision := range w.resources {
			statuses = append(statuses, w.status(name, revision))
		}
		slices.Sort(statuses)
		require.Equal(t, statuses, append([]string(nil), storetest.Collect[string](w.db, "SELECT concat_ws(' ', name, observed_revision, concerned, running, refusing) FROM mesh.resource_status ORDER BY name")...))
		for revision := range w.db.Newest() {
			rollouts = append(rollouts, w.progress(revision+1))
		}
		require.Equal(t, rollouts, append([]string(nil), rolled(w.db, w.began)...))
	}
}
