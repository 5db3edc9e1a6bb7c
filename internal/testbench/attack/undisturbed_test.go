package attack

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
)

// rounds is how often each thing is timed. The median counts.
const rounds = 5

// slack is what a machine with two processors may add to one timing by chance, beyond twice the
// usual time.
const slack = 150 * time.Millisecond

// quiet is held by the one test that takes times.
var quiet sync.Mutex

// usual has the median times of what a bystander does.
type usual struct{ change, revocation, request time.Duration }

func (u usual) String() string {
	return fmt.Sprintf("a change %s, a revocation %s, a request %s", u.change.Round(time.Millisecond), u.revocation.Round(time.Millisecond), u.request.Round(10*time.Microsecond))
}

// measure times what a bystander does.
func (b *bystander) measure(thieves []*thief) usual {
	b.t.Helper()
	var change, revocation, request []time.Duration
	for _, machine := range thieves {
		change = append(change, b.change())
		revocation = append(revocation, b.revocation(machine))
		request = append(request, b.request())
	}
	return usual{median(change), median(revocation), median(request)}
}

// within reports whether all took at most twice the usual time.
func (u usual) within(before usual) bool {
	return u.change <= 2*before.change+slack && u.revocation <= 2*before.revocation+slack && u.request <= 2*before.request+slack
}

func (u usual) best(other usual) usual {
	return usual{min(u.change, other.change), min(u.revocation, other.revocation), min(u.request, other.request)}
}

// undisturbed holds an attack to its promise: while it lasts, a change is applied, a revocation in
// force and a request answered within twice the usual time. The attack returns when it is under
// way, with what ends it, and goes on meanwhile. What takes longer is timed again, while the attack
// goes on: who is in the way stays there, and the tests of other packages, which share the
// processors, do not.
func (b *bystander) undisturbed(attack func() (end func())) {
	b.t.Helper()
	first, second := b.thieves("machine"), b.thieves("other")
	quiet.Lock()
	defer quiet.Unlock()
	before := b.measure(first)
	end := attack()
	meanwhile := b.measure(second)
	for again := 1; again <= 2 && !meanwhile.within(before); again++ {
		b.t.Logf("before: %s; meanwhile: %s; once more", before, meanwhile)
		meanwhile = meanwhile.best(b.measure(b.thieves(fmt.Sprint("again-", again))))
	}
	end()
	b.t.Logf("before: %s; meanwhile: %s", before, meanwhile)
	require.LessOrEqual(b.t, meanwhile.change, 2*before.change+slack, "a change of somebody else's")
	require.LessOrEqual(b.t, meanwhile.revocation, 2*before.revocation+slack, "a revocation of somebody else's machine")
	require.LessOrEqual(b.t, meanwhile.request, 2*before.request+slack, "a request of somebody else's")
}

// thieves are machines to revoke, one for each round.
func (b *bystander) thieves(name string) (machines []*thief) {
	b.t.Helper()
	for i := range rounds {
		machines = append(machines, newThief(b.mesh, fmt.Sprintf("shop/%s-%d", name, i)))
	}
	return machines
}

func median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2]
}
