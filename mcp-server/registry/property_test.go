package registry_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mcp-server/registry"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// fleet is the actual state: machines connected to discoveries, whose sessions are with servers.
// All of it comes and goes.
type fleet struct {
	b           *bundle
	random      *rand.Rand
	since       int64
	machines    map[string]*machinev1.Change // the connected ones, as on their latest streams
	discoveries []*replica
	servers     []*server
}

// replica is a discovery with the streams that it believes to have. It queues the latest report
// about each machine until it is sent.
type replica struct {
	fleet   *fleet
	name    string
	streams map[string]*machinev1.Change
	pending map[string]*machinev1.Change
	session *discovery
}

func newFleet(b *bundle, seed uint64) *fleet {
	f := &fleet{b: b, random: rand.New(rand.NewPCG(seed, 0)), machines: map[string]*machinev1.Change{}}
	for range 2 {
		f.servers = append(f.servers, b.serve(fleeting))
	}
	for i := range 3 {
		f.discoveries = append(f.discoveries, &replica{fleet: f, name: fmt.Sprint("eu-", i), streams: map[string]*machinev1.Change{}, pending: map[string]*machinev1.Change{}})
	}
	return f
}

// fleeting has a grace period that is long beside a round, and short beside a test.
var fleeting = registry.Options{Name: "fleeting", Grace: 2e9, RefreshInterval: 30e6, Lease: 1e9}

func (f *fleet) any() *replica { return f.discoveries[f.random.IntN(len(f.discoveries))] }

// connect opens a stream from a machine to some discovery. Its earlier streams linger where they
// are.
func (f *fleet) connect(machine string) {
	f.since++
	c := here(machine, f.freeAddress(machine), f.since, func(c *machinev1.Change) {
		c.Labels = map[string]string{"version": fmt.Sprint("v", f.random.IntN(3))}
	})
	f.machines[machine] = c
	f.any().learn(c)
}

// freeAddress is an address that no connected machine has. The one that had it before may still
// count as connected.
func (f *fleet) freeAddress(machine string) string {
	used := map[string]bool{}
	for m, c := range f.machines {
		used[c.GetAddress()] = m != machine
	}
	for {
		if a := fmt.Sprint("10.0.0.", 1+f.random.IntN(20)); !used[a] {
			return a
		}
	}
}

func (r *replica) learn(c *machinev1.Change) {
	r.streams[c.GetMachine()], r.pending[c.GetMachine()] = c, c
}

// forget drops what the replica believes about a machine.
func (r *replica) forget(machine string, state machinev1.Change_State) {
	if c := r.streams[machine]; c != nil {
		r.pending[machine] = as(c, state)
		delete(r.streams, machine)
	}
}

// holder is the discovery that has the latest stream of a machine.
func (f *fleet) holder(machine string) *replica {
	for _, r := range f.discoveries {
		if c := r.streams[machine]; c != nil && c.GetSince() == f.machines[machine].GetSince() {
			return r
		}
	}
	return nil
}

// happen makes one random event.
func (f *fleet) happen() {
	machine := fmt.Sprint("m", f.random.IntN(12))
	there := f.machines[machine] != nil
	switch n := f.random.IntN(20); {
	case n < 7:
		f.connect(machine)
	case n < 9 && there: // it leaves in good order
		if r := f.holder(machine); r != nil {
			r.forget(machine, machinev1.Change_STATE_LEFT)
		}
		delete(f.machines, machine)
	case n < 11 && there: // it vanishes, which its discovery notices some time
		delete(f.machines, machine)
	case n < 14:
		if r := f.holder(machine); there && r != nil {
			c := as(f.machines[machine], machinev1.Change_STATE_HERE)
			c.Service.Health = machinev1.Health(1 + f.random.IntN(2))
			f.machines[machine] = c
			r.learn(c)
		}
	case n < 17:
		f.any().notice()
	case n == 17: // the discovery loses its session, and opens another
		f.any().lose()
	case n == 18 && f.random.IntN(4) == 0: // a server dies
		i := f.random.IntN(len(f.servers))
		f.servers[i].kill()
		f.servers[i] = f.b.serve(fleeting)
	case n == 19 && f.random.IntN(3) == 0: // people change the group
		f.b.group("web", strings.Replace(web, "8080", fmt.Sprint(8080+f.random.IntN(5)), 1))
	}
}

// notice lets a discovery find out which of its streams have ended.
func (r *replica) notice() {
	for machine, c := range maps.Clone(r.streams) {
		if now := r.fleet.machines[machine]; now == nil || now.GetSince() != c.GetSince() {
			r.forget(machine, machinev1.Change_STATE_GONE)
		}
	}
}

func (r *replica) lose() {
	if r.session != nil {
		r.session.leave()
		r.session = nil
	}
}

// tell sends what is pending. Without a session it begins one, which starts with everything.
func (r *replica) tell(server *server) bool {
	if r.session != nil && r.session.dead() {
		r.lose()
	}
	if r.session == nil {
		r.session = server.discovery(r.name)
		maps.Copy(r.pending, r.streams)
	}
	if len(r.pending) == 0 {
		return true
	}
	if _, err := r.session.tell(slices.Collect(maps.Values(r.pending))...); err != nil {
		r.lose()
		return false
	}
	r.pending = map[string]*machinev1.Change{}
	return true
}

// flush has some of the discoveries tell what they know, at once.
func (f *fleet) flush(all bool) {
	var wg sync.WaitGroup
	for _, r := range f.discoveries {
		if !all && f.random.IntN(2) == 0 {
			continue
		}
		server := f.servers[f.random.IntN(len(f.servers))]
		wg.Go(func() {
			for told := false; !told; {
				told = r.tell(server) || !all
			}
		})
	}
	wg.Wait()
}

// settles waits until a query returns a result. A discovery whose session ends opens another.
func (f *fleet) settles(want, sql string) {
	f.b.t.Helper()
	require.Eventually(f.b.t, func() bool {
		f.flush(true)
		return one[string](f.b, sql) == want
	}, limit, 20*time.Millisecond, "it does not come to %s", want)
}

// consistent is so at any moment: each machine's entry is there, no entry is anybody else's, and
// none has two.
func (f *fleet) consistent() {
	f.b.t.Helper()
	require.Empty(f.b.t, list[string](f.b, `SELECT coalesce(i.machine, '-') || ' ' || coalesce(r.name, '-') FROM mesh_internal.workload_instances i
		FULL JOIN (SELECT * FROM mesh.resources WHERE kind = 'WorkloadEntry') r ON r.namespace = i.namespace AND r.name = i.entry AND r.annotations ->> 'mesh.pgmesh.io/machine' = i.machine
		WHERE i.machine IS NULL OR i.entry IS NOT NULL AND r.name IS NULL`))
}

// want returns the entries that must exist once everything is known.
func (f *fleet) want() string {
	var lines []string
	for machine, c := range f.machines {
		health := map[machinev1.Health]string{machinev1.Health_HEALTH_UNHEALTHY: "unhealthy"}[c.GetService().GetHealth()]
		lines = append(lines, fmt.Sprintf("web-%s %s %s %s", c.GetAddress(), machine, c.GetLabels()["version"], health))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Whatever happens, in whatever order it is reported, and whichever server dies: in the end the
// entries are those of the connected machines.
func TestTheTableIsRightAtTheEnd(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			b := begin(t)
			f := newFleet(b, seed)
			for i := range 100 {
				for range 1 + f.random.IntN(4) {
					f.happen()
				}
				f.flush(false)
				if i%10 == 0 {
					f.consistent()
				}
			}
			for _, r := range f.discoveries {
				r.notice()
			}
			f.settles(f.want(), `SELECT coalesce(string_agg(line, E'\n' ORDER BY line COLLATE "C"), '') FROM (
				SELECT concat_ws(' ', name, annotations ->> 'mesh.pgmesh.io/machine', labels ->> 'version', coalesce(annotations ->> 'mesh.pgmesh.io/health', '')) AS line
				FROM mesh.resources WHERE kind = 'WorkloadEntry') r`)
			f.consistent()
			f.settles(fmt.Sprintf("%d %[1]d t", len(f.machines)), `SELECT format('%s %s %s', (SELECT count(*) FROM mesh_internal.workload_instances),
				(SELECT count(*) FROM mesh.registered_machines WHERE state = 'here' AND refused IS NULL), (SELECT count(*) <= 3 AND count(ended) = 0 FROM mesh_internal.workload_sessions))`)
			ports := list[int](b, "SELECT DISTINCT (spec #>> '{ports,http}')::int FROM mesh.resources WHERE kind = 'WorkloadEntry'")
			require.LessOrEqual(t, len(ports), 1, "all follow the group as it is")
		})
	}
}
