package quarantine_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/ads/quarantine"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// history is a random history of a client and its quarantine: resources change, and the client
// refuses responses.
type history struct {
	q    *quarantine.Quarantine
	rng  *rand.Rand
	mesh map[string]*served.Resource // what is to be served
	has  map[string]*served.Resource // what the client has
	// refuses says why a client refuses a response that would leave it with these resources; "" if
	// it does not.
	refuses func(would map[string]*served.Resource) string
	whole   bool // of a refused response the client applies nothing

	responses int
}

func newHistory(seed uint64, owned bool) *history {
	return &history{
		q: quarantine.New(owned), rng: rand.New(rand.NewPCG(seed, 3)),
		mesh: map[string]*served.Resource{}, has: map[string]*served.Resource{},
	}
}

// bring sends what has changed, as a stream would, until nothing is left to send. Between the
// responses, change may change the mesh.
func (h *history) bring(change func()) {
	for tried := false; ; change() {
		h.review()
		names, removed := h.news()
		switch regular := len(names)+len(removed) > 0; {
		case h.q.Pending() && (!regular || !tried):
			h.try()
			tried = true
		case !regular:
			return
		case h.answer(names, removed):
			tried = false
		default:
			h.answer(nil, removed) // which was not the cause
			tried = false
		}
	}
}

// review reviews what is withheld. Some of it may be gone.
func (h *history) review() {
	for _, name := range withheld(h.q) {
		h.q.Review(name, h.mesh[name])
	}
	h.q.Conclude()
}

// news lists what the client does not have yet: what is withheld or in doubt is no news.
func (h *history) news() (names, removed []string) {
	for _, name := range slices.Sorted(maps.Keys(h.mesh)) {
		r := h.mesh[name]
		if _, is := h.q.Withholds(r); !is && !h.q.InDoubt(name) && (h.has[name] == nil || h.has[name].Version != r.Version) {
			names = append(names, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.has)) {
		if h.mesh[name] == nil && !h.q.InDoubt(name) {
			removed = append(removed, name)
		}
	}
	return names, removed
}

// try sends what the quarantine wants to be tried, as it is now.
func (h *history) try() {
	var names []string
	for _, name := range h.q.Next() {
		if h.mesh[name] == nil {
			h.q.EndDoubt(name)
		} else {
			names = append(names, name)
		}
	}
	h.answer(names, nil)
	h.q.Conclude()
}

// answer tells what the client makes of a response, and returns whether it accepts it.
func (h *history) answer(names, removed []string) bool {
	if len(names)+len(removed) == 0 {
		return true
	}
	h.responses++
	would := maps.Clone(h.has)
	v := quarantine.Verdict{Alone: len(names) == 1}
	for _, name := range names {
		r := h.mesh[name]
		v.Accepted = append(v.Accepted, r)
		v.Refused = append(v.Refused, quarantine.Sent{Resource: r, Before: h.has[name]})
		would[name] = r
	}
	for _, name := range removed {
		delete(would, name)
	}
	v.Reason = h.refuses(would)
	if v.Reason == "" {
		h.has, v.Refused, v.Removed, v.Alone = would, nil, removed, false
	} else {
		v.Accepted = nil
		if !h.whole {
			h.applySome(names)
		}
	}
	h.q.Answered(v, now)
	h.q.Conclude()
	return v.Reason == ""
}

// applySome applies what the client likes of a response that it refuses: all of that, or some, or
// nothing.
func (h *history) applySome(names []string) {
	greed := h.rng.IntN(3)
	for _, name := range names {
		alone := map[string]*served.Resource{name: h.mesh[name]}
		if h.refuses(alone) == "" && (greed == 2 || greed == 1 && h.rng.IntN(2) == 0) {
			h.has[name] = h.mesh[name]
		}
	}
}

// A client that refuses some resources for themselves has all others, as they are.
func TestAClientHasAllThatItDoesNotRefuse(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		h := newHistory(seed, seed%2 == 0)
		h.refuses = func(would map[string]*served.Resource) string {
			var bad []string
			for _, name := range slices.Sorted(maps.Keys(would)) {
				if strings.HasPrefix(would[name].Version, "bad") {
					bad = append(bad, name)
				}
			}
			switch {
			case len(bad) == 0:
				return ""
			case seed%3 == 0:
				return named(bad)
			}
			return silent(bad)
		}
		for step := range 6 {
			bad := h.change(step)
			h.responses = 0
			h.bring(func() {})
			require.Equal(t, bad, withheld(h.q), "seed %d", seed)
			require.Zero(t, h.q.Doubts())
			for name, r := range h.mesh {
				if !slices.Contains(bad, name) {
					require.Same(t, r, h.has[name], "seed %d: %s", seed, name)
				}
			}
			require.LessOrEqual(t, h.responses, 2*len(h.mesh)+2, "seed %d", seed)
			require.Equal(t, len(bad) == 0, h.q.Conclude())
		}
	}
}

// change makes other versions of some resources, a few of them bad, and lists what is bad then.
func (h *history) change(step int) (bad []string) {
	for range h.rng.IntN(60) {
		name := fmt.Sprintf("n%02d", h.rng.IntN(40))
		version := fmt.Sprintf("%d-%d", step, h.rng.IntN(1000))
		if h.rng.IntN(5) == 0 {
			version = "bad" + version
		}
		h.mesh[name] = res(name, version)
	}
	for name, r := range h.mesh {
		switch {
		case h.rng.IntN(10) == 0:
			delete(h.mesh, name)
		case strings.HasPrefix(r.Version, "bad"):
			bad = append(bad, name)
		}
	}
	slices.Sort(bad)
	return bad
}

// Virtual hosts depend on each other: no domain may be in two of one route configuration, and Envoy
// accepts a response whole or not at all. In the end a client has all hosts except wrong ones, and
// except hosts with a domain that the old version of a withheld host still has.
func TestAClientHasAllHostsThatNoneIsInTheWayOf(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		h := newHistory(seed, true)
		h.whole, h.refuses = true, complaint
		for step := range 6 {
			h.move("80", step%5 > 0)
			h.responses = 0
			changes := h.rng.IntN(3)
			h.bring(func() {
				if changes > 0 && h.rng.IntN(4) == 0 {
					h.move([]string{"80", "81"}[seed%2], step%5 > 0)
					changes--
				}
			})
			require.Zero(t, h.q.Doubts())
			require.Equal(t, h.blocked(), withheld(h.q), "seed %d, step %d", seed, step)
			require.LessOrEqual(t, h.responses, 30+5*len(h.mesh), "seed %d, step %d", seed, step)
		}
	}
}

const wrong = "!"

// move gives some hosts of an owner other domains, which are nowhere twice, and removes some. It
// makes some of the others wrong, or corrects all that are.
func (h *history) move(owner string, makesWrong bool) {
	free := map[string]bool{}
	for i := range 6 {
		free[fmt.Sprint("d", i)] = true
	}
	var moving []string
	for _, host := range []string{"a", "b", "c", "d", "e"} {
		name := owner + "/" + host
		if r := h.mesh[name]; r == nil || h.rng.IntN(2) == 0 || !makesWrong && strings.HasSuffix(r.Version, wrong) {
			moving = append(moving, name)
			delete(h.mesh, name)
		} else {
			delete(free, strings.TrimSuffix(r.Version, wrong))
		}
	}
	domains := slices.Sorted(maps.Keys(free))
	for i, at := range h.rng.Perm(len(domains))[:len(moving)] {
		switch version := domains[at]; {
		case h.rng.IntN(6) == 0: // it is gone
		case makesWrong && h.rng.IntN(4) == 0:
			h.mesh[moving[i]] = res(moving[i], version+wrong)
		default:
			h.mesh[moving[i]] = res(moving[i], version)
		}
	}
}

// complaint is what Envoy says of hosts, which names none of them.
func complaint(all map[string]*served.Resource) string {
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		domain := all[name].Version
		if of := served.OwnerOf(name) + " " + domain; !seen[of] && !strings.HasSuffix(domain, wrong) {
			seen[of] = true
			continue
		}
		return "duplicate entry of domain " + domain
	}
	return ""
}

// blocked lists the hosts that a client cannot have: wrong ones, and those with a domain that a
// wrong one still has.
func (h *history) blocked() (names []string) {
	blocked := map[string]bool{}
	for name, r := range h.mesh {
		if strings.HasSuffix(r.Version, wrong) {
			blocked[name] = true
			names = append(names, name)
		}
	}
	for i := 0; i < len(names); i++ {
		kept := h.has[names[i]]
		for name, r := range h.mesh {
			if !blocked[name] && kept != nil && kept.Version == r.Version && served.OwnerOf(name) == served.OwnerOf(names[i]) {
				blocked[name] = true
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}
