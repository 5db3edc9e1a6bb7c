package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/bench/timing"
)

// propagation is the test of that name: routes are written one after the other, each when the one before
// is answered.
type propagation struct {
	// followed is the time from when the origin has a route until it is answered by, which is what
	// gateway-api-bench tells: its clock starts when the route is applied. took is with the write.
	followed, took, wrote, floor []time.Duration
}

// part is how many of the routes stand for the first ones and for the last ones.
const part = 500

// sayEvery is how often it is told how far it is.
const sayEvery = 250

func (o *options) propagate(ctx context.Context, m *mesh) (p propagation, err error) {
	for i := range o.routes {
		timing.Settle()
		took, wrote, err := m.answered(ctx, probed(i), fmt.Sprintf("/%d", i), "added-value", http.StatusNotFound)
		if err != nil {
			return p, err
		}
		p.followed, p.took, p.wrote = append(p.followed, took-wrote), append(p.took, took), append(p.wrote, wrote)
		least, err := m.floor(ctx) // as often, so that its maximum can be compared
		if err != nil {
			return p, err
		}
		p.floor = append(p.floor, least)
		if (i+1)%sayEvery == 0 {
			fmt.Fprintf(os.Stderr, "%d routes, the last ones within %s …\n", i+1, rounded(mean(p.followed[max(0, len(p.followed)-sayEvery):])))
		}
	}
	return p, nil
}

func (p propagation) report(out io.Writer, name string, a aims) {
	line(out, name+", from when the origin has it", p.followed)
	n := min(part, len(p.followed))
	line(out, fmt.Sprintf("  the first %d", n), p.followed[:n])
	line(out, fmt.Sprintf("  the last %d", n), p.followed[len(p.followed)-n:])
	a.meets(out, "mean", mean(p.followed), a.mean)
	if a.most > 0 {
		a.meets(out, "maximum", slices.Max(p.followed), a.most)
	}
	line(out, "  until the origin has it", p.wrote)
	line(out, "  both", p.took)
	line(out, "  floor of both: "+a.floor, p.floor)
}

func mean(all []time.Duration) (sum time.Duration) {
	for _, one := range all {
		sum += one
	}
	return sum / time.Duration(max(1, len(all)))
}
