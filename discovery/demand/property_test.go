package demand_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/demand"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// world changes at random, and proxies ask for hosts in it.
type world struct {
	t      *testing.T
	random *rand.Rand
	sets   map[string]*served.Set
	whole  *whole
	asked  []*demand.Asked
	names  []map[string]bool // that each has asked for
	// late is a class that sees the same, and is updated only now and then. Its one proxy asks for
	// the same as the first one.
	late      *whole
	lateAsked *demand.Asked
	step      int
}

func (w *world) one(of int) int { return w.random.IntN(of) }

// change makes one change. A proxy may not be concerned.
func (w *world) change() {
	w.step++
	w.sets = maps.Clone(w.sets)
	routesName := fmt.Sprint(80 + w.one(3))
	name := fmt.Sprintf("%s/%d", routesName, w.one(5))
	cluster := []string{"PassthroughCluster", "outbound|80||a", "outbound|80||b", "outbound|80||c"}[w.one(4)]
	put := func(typeURL string, r *served.Resource) {
		w.sets[typeURL] = w.sets[typeURL].With([]*served.Resource{r}, nil)
	}
	drop := func(typeURL, name string) { w.sets[typeURL] = w.sets[typeURL].With(nil, []string{name}) }
	switch w.one(6) {
	case 0:
		put(clusters, resource(w.t, cluster, fmt.Sprint(w.one(3)), &clusterv3.Cluster{Name: cluster}))
	case 1:
		drop(clusters, cluster)
	case 2:
		put(routes, configuration(w.t, routesName))
	case 3:
		drop(hosts, name)
	default:
		put(hosts, host(w.t, name, cluster, w.free(routesName, name)...))
		if w.sets[routes].Get(routesName) == nil {
			put(routes, configuration(w.t, routesName))
		}
	}
}

// free takes some domains that no other virtual host of a route configuration has.
func (w *world) free(routesName, name string) (domains []string) {
	for i, domain := range []string{"a", "b", "c.example", "*.example", "*"} {
		if (i+len(name)+int(name[len(name)-1]))%2 == w.one(2) && !w.taken(routesName, name, domain) {
			domains = append(domains, domain)
		}
	}
	if len(domains) == 0 {
		domains = []string{name[len(routesName)+1:] + ".own"}
	}
	return domains
}

func (w *world) taken(routesName, name, domain string) bool {
	for r := range w.sets[hosts].All() {
		if r.Name != name && r.Name[:len(routesName)] == routesName && slices.Contains(domainsIn(w.t, r), domain) {
			return true
		}
	}
	return false
}

// ask makes a proxy ask for a host, or stop asking.
func (w *world) ask() {
	i := w.one(len(w.asked))
	name := fmt.Sprintf("%d/%s", 80+w.one(3), []string{"a", "b", "c.example", "d.example", "0.own", "other"}[w.one(6)])
	all := []*demand.Asked{w.asked[i]}
	if i == 0 {
		all = append(all, w.lateAsked)
	}
	if w.one(4) == 0 {
		for _, asked := range all {
			asked.Forget(name)
		}
		delete(w.names[i], name)
		return
	}
	for _, asked := range all {
		asked.Hear(hosts, []string{name}, nil)
	}
	w.names[i][name] = true
}

// The result of many steps is the same as that of one.
func TestPartsAreWhatTheyWouldBeFromScratch(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		w := &world{t: t, random: rand.New(rand.NewPCG(seed, 7)), sets: map[string]*served.Set{}, whole: newWhole(), lateAsked: demand.NewAsked()}
		w.late = &whole{demand.NewWhole(), w.whole.hosts}
		for range 3 {
			w.asked, w.names = append(w.asked, demand.NewAsked()), append(w.names, map[string]bool{})
		}
		for range 60 {
			if w.change(); w.one(3) == 0 {
				w.ask()
			}
			w.whole.Update(w.sets)
			for i, asked := range w.asked {
				w.holds(w.whole, asked, w.names[i], seed)
			}
			if w.one(3) == 0 {
				w.late.Update(w.sets)
				w.holds(w.late, w.lateAsked, w.names[0], seed)
			}
		}
	}
}

// holds compares what a proxy is given with what a new proxy would be given.
func (w *world) holds(of *whole, asked *demand.Asked, names map[string]bool, seed uint64) {
	fresh, again := newWhole(), demand.NewAsked()
	fresh.Update(w.sets)
	again.Hear(hosts, slices.Collect(maps.Keys(names)), nil)
	want, got := fresh.Part(again), of.Part(asked)
	for _, typeURL := range []string{hosts, clusters} {
		require.Equal(w.t, versions(want[typeURL]), versions(got[typeURL]), "seed %d, step %d", seed, w.step)
	}
}

func versions(set *served.Set) (all []string) {
	for r := range set.All() {
		all = append(all, r.Name+" "+r.Version)
	}
	return all
}
