package registrytest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// The variables that have the test try more, and try the same again.
const (
	operationsVariable = "PGMESH_REGISTRY_OPERATIONS"
	seedVariable       = "PGMESH_SEED"
)

// operations is how many random operations there are without a variable.
const operations = 200

// mesh is where arrives what a registry has.
type mesh interface {
	// until waits until there is exactly this.
	until(want content)
	// keep requires services to be there at any time from now on.
	keep(services ...string)
	// freeze requires, until it is called with false, that nothing goes.
	freeze(frozen bool)
	// interrupt restarts what reads the registry, or a part of it. The way to the registry may be cut.
	interrupt(random *rand.Rand, cut bool)
	// end waits until all is well, and ends.
	end()
}

// survivesRandomOperations is the story of a registry of which the sink is told.
func survivesRandomOperations(t *testing.T, s Subject) {
	tell(t, s, number(t, operationsVariable, operations), func() mesh { return follow(t, s) })
}

// tell changes a registry at random, cuts the way to it, restarts it and what reads it, and requires
// that what there is at the end is what the registry has. One service never changes, and must never be
// missing.
func tell(t *testing.T, s Subject, operations int, begin func() mesh) {
	t.Helper()
	seed := number(t, seedVariable, int(rand.Int64N(1_000_000)))
	t.Logf("the seed is %d: %s=%d draws the same", seed, seedVariable, seed)
	r := &story{s: s, random: rand.New(rand.NewPCG(uint64(seed), 0)), has: content{}}
	r.has.register(s, "steady", Instance{ID: "steady-1", Address: "10.9.9.9", Port: 9000, Weight: 1})
	r.m = begin()
	r.m.until(r.has)
	r.m.keep("steady")
	for range operations {
		r.step()
	}
	if r.cut {
		r.cutOrMend()
	}
	r.m.until(r.has)
	r.m.end()
}

func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, variable)
	return n
}

// story is a registry with what was done to it.
type story struct {
	s      Subject
	m      mesh
	random *rand.Rand
	has    content
	cut    bool
	marks  int // how often mark was called
}

// step does one thing. Most are changes of instances.
func (r *story) step() {
	switch drawn := r.random.IntN(100); {
	case drawn < 50:
		r.register()
	case drawn < 85:
		r.deregister()
	case drawn < 91:
		r.cutOrMend()
	case drawn < 93 && !r.cut:
		r.m.until(r.has)
	case drawn < 95 && r.s.Restart != nil && !r.cut:
		r.s.Restart()
	case drawn < 97:
		r.m.interrupt(r.random, r.cut)
	default:
		r.register()
	}
}

func (r *story) register() {
	service, n := fmt.Sprintf("service-%d", r.random.IntN(12)), r.random.IntN(5)
	i := Instance{
		ID: fmt.Sprintf("%s-%d", service, n), Address: fmt.Sprintf("10.1.%d.%d", r.random.IntN(3), n+1),
		Port: uint32(8000 + r.random.IntN(3)), Weight: 1,
	}
	i = i.weighing(r.s, uint32(1+r.random.IntN(3)))
	if r.random.IntN(3) == 0 {
		i = i.failing(r.s)
	}
	r.has.register(r.s, service, i)
}

// deregister removes an instance of a service that may change.
func (r *story) deregister() {
	services := slices.DeleteFunc(slices.Sorted(maps.Keys(r.has)), func(name string) bool { return name == "steady" })
	if len(services) == 0 {
		return
	}
	service := services[r.random.IntN(len(services))]
	ids := slices.Sorted(maps.Keys(r.has[service]))
	r.has.deregister(r.s, service, ids[r.random.IntN(len(ids))])
}

// cutOrMend cuts the way to the registry. If all of it has arrived before, nothing goes until it is
// mended.
func (r *story) cutOrMend() {
	if r.cut = !r.cut; !r.cut {
		r.m.freeze(false)
		r.s.Mend()
		return
	}
	if r.random.IntN(2) == 0 {
		r.mark()
		r.m.until(r.has)
		r.m.freeze(true)
	}
	r.s.Cut()
}

// mark makes a change that was never there before. Whoever has it has what came before it, too: an
// instance that has come and gone again leaves what there is as it was, and may be on its way still.
func (r *story) mark() {
	r.marks++
	r.has.register(r.s, "mark", Instance{ID: "mark-1", Address: fmt.Sprintf("10.8.%d.%d", r.marks/200, r.marks%200+1), Port: 9001, Weight: 1})
}
