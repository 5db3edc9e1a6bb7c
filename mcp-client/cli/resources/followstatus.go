package resources

import (
	"context"
	"time"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
)

const (
	// askAgain is how often it is asked what became of resources that are on their way to proxies.
	askAgain = time.Second
	// askings is how often it is asked after a change: what takes longer waits for something that a user has to do.
	askings = 120
)

// followed are the statuses of resources that are watched. A server tells of changes of resources, and not of how far they
// have come, so that is asked for until all proxies run them.
type followed struct {
	program

	begun     bool // something was printed
	shown     bool // there is a status to show, for discoveries report
	unsettled map[kinds.Key]*unsettled
}

// unsettled is a resource that not all proxies run that it concerns, as it was shown.
type unsettled struct {
	resource *kinds.Resource
	revision int64 // as of which it was read
	counts   output.Counts
	word     string
	left     int // how often it is still asked for
}

// begin returns the statuses of the first resources. Whether these have any decides if there is a column for them.
func (f *followed) begin(ctx context.Context, of []*kinds.Resource, revision int64) output.Statuses {
	known := f.program.statuses(ctx, of)
	f.begun, f.shown = true, known != nil
	f.keep(of, known, revision)
	return known
}

// of returns the statuses of resources that have changed.
func (f *followed) of(ctx context.Context, of []*kinds.Resource, revision int64) output.Statuses {
	switch {
	case !f.begun:
		return f.begin(ctx, of, revision)
	case !f.shown:
		return nil
	}
	known, _ := f.statusesOf(ctx, of)
	if known == nil {
		known = output.Statuses{} // the columns stay
	}
	f.keep(of, known, revision)
	return known
}

// keep has the resources asked for again that are not settled.
func (f *followed) keep(of []*kinds.Resource, known output.Statuses, revision int64) {
	for _, r := range of {
		status := known[r.Key()]
		delete(f.unsettled, r.Key())
		if status == nil {
			continue
		}
		status.Version = versionAt(revision, status.ObservedRevision)
		if word, _ := status.Word(); status.Proxies.Concerned == 0 || status.Proxies.Running < status.Proxies.Concerned {
			f.unsettled[r.Key()] = &unsettled{r, revision, status.Proxies, word, askings}
		}
	}
}

func (f *followed) forget(key kinds.Key) { delete(f.unsettled, key) }

// further returns those of the unsettled that have another status than was shown.
func (f *followed) further(ctx context.Context) (further []*kinds.Resource, statuses output.Statuses) {
	var asked []*kinds.Resource
	for key, one := range f.unsettled {
		if one.left--; one.left <= 0 {
			delete(f.unsettled, key)
		}
		asked = append(asked, one.resource)
	}
	if len(asked) == 0 {
		return nil, nil
	}
	known, _ := f.statusesOf(ctx, asked)
	for _, r := range asked {
		status, one := known[r.Key()], f.unsettled[r.Key()]
		if status == nil || one == nil {
			continue
		}
		if word, _ := status.Word(); word != one.word || status.Proxies != one.counts {
			left := one.left
			f.keep([]*kinds.Resource{r}, known, one.revision)
			if again := f.unsettled[r.Key()]; again != nil {
				again.left = left
			}
			further = append(further, r)
		}
	}
	return further, known
}
