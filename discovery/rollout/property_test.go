package rollout_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// mark is a service whose port is the number of its revision.
func mark(revision int64) string {
	return strings.Replace(service("mark", "*"), "number: 80", fmt.Sprint("number: ", 1000+revision), 1)
}

// runs reports whether the proxy has all of a revision, or of a later one.
func (p *proxy) runs(revision, newest int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for r := revision; r <= newest; r++ {
		if p.has[fmt.Sprintf("outbound|%d||mark.shop", 1000+r)] {
			return true
		}
	}
	return false
}

// Whatever proxies do, none is ever reported to run what it does not. When all is quiet, everything
// reported is exact.
func TestNoProxyIsReportedToRunWhatItDoesNot(t *testing.T) {
	t.Parallel()
	const proxies, transactions = 200, 150
	random := rand.New(rand.NewPCG(1, rand.Uint64()))
	b := start(t)
	var mu sync.Mutex // of what follows
	connected, newest := map[string]*proxy{}, int64(0)
	names, streams := make([]string, proxies), 0
	b.reports.check = func(name string, runs int64) {
		mu.Lock()
		p, newest := connected[name], newest
		mu.Unlock()
		if p != nil && runs > 0 && !p.runs(runs, newest) {
			t.Errorf("%s is reported to run %d, and has %v", name, runs, p.has)
		}
	}
	apply := func() {
		mu.Lock()
		newest++
		mu.Unlock()
		b.apply(mark(newest))
	}
	connect := func(i int) {
		mu.Lock()
		defer mu.Unlock()
		if was := connected[names[i]]; was != nil {
			delete(connected, names[i])
			was.leave()
		}
		streams++ // each has a name of its own: what is reported of one says nothing of the next
		names[i] = fmt.Sprintf("p%d.shop", streams)
		connected[names[i]] = b.connect(fmt.Sprint("p", streams), "shop")
	}
	apply()
	for i := range proxies {
		connect(i)
	}
	for _, name := range names {
		b.await(name, "synced 1")
	}
	for range transactions {
		apply()
		i := random.IntN(proxies)
		p := connected[names[i]]
		switch random.IntN(8) {
		case 0:
			p.behave(push.ClusterType, false)
		case 1:
			p.behave("", true)
		case 2, 3, 4:
			p.behave("", false)
		case 5:
			connect(i)
		case 6:
			b.reports.end()
		}
	}
	for _, p := range connected {
		p.behave("", false)
	}
	apply()
	for name := range connected {
		b.await(name, fmt.Sprint("synced ", newest))
	}
	poll.Within(t, 20*time.Second, func(context.Context) error { return b.reports.unfinished(newest) })
	require.False(t, t.Failed())
}

// unfinished is an error if some proxies are not reported to have run a revision that concerned
// them, or to have left before. Each revision concerned all that were there.
func (r *reports) unfinished(newest int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for revision := int64(2); revision <= newest; revision++ {
		rollout := r.rollouts[revision]
		if rollout == nil || len(rollout.GetParts()) != 1 {
			return fmt.Errorf("%d: %v", revision, rollout)
		}
		if p := rollout.GetParts()[0]; p.GetRefused() > 0 || p.GetConcerned() == 0 || p.GetConcerned() != p.GetRan()+p.GetAway() {
			return fmt.Errorf("%d: %v", revision, p)
		}
	}
	return nil
}

// end ends the report, as a server does that goes.
func (r *reports) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		close(r.fail)
		r.fail = nil
	}
}
