package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/bench/timing"
	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

// large is what an edit of one route of very many costs.
type large struct {
	routes, edits int
	took          []time.Duration
	resources     map[string]float64 // that were sent for all edits, by type
	bytes         float64
	discovery     time.Duration // of its processor time, for all edits
}

// editLarge fills the Gateway with routes, and edits some of them.
func (o *options) editLarge(ctx context.Context, m *mesh) (l large, err error) {
	l = large{routes: o.largeRoutes, edits: o.largeEdits}
	all := make([]route, o.largeRoutes)
	for i := range all {
		all[i] = route{name: fmt.Sprintf("large-%d", i)}
		all[i] = marked(all[i], backend, "before")
	}
	if err := m.writeAll(ctx, all); err != nil {
		return l, err
	}
	for _, r := range all[max(0, len(all)-l.edits):] { // routes of one transaction come together, and those of a cluster in turn
		if err := m.until(ctx, r, "/", "before"); err != nil {
			return l, err
		}
	}
	if err := m.drained(ctx, all[0]); err != nil {
		return l, err
	}
	before, err := m.sent(ctx)
	if err != nil {
		return l, err
	}
	own := usage.CPUOf(m.stack.Discovery.Pid())
	for n := range l.edits {
		timing.Settle()
		mark := fmt.Sprint("after-", n)
		took, _, err := m.answered(ctx, marked(all[(n*len(all))/l.edits], backend, mark), "/", mark, http.StatusOK)
		if err != nil {
			return l, err
		}
		l.took = append(l.took, took)
	}
	after, err := m.sent(ctx)
	l.discovery = usage.CPUOf(m.stack.Discovery.Pid()) - own
	l.resources = map[string]float64{}
	for name, count := range after {
		switch more := count - before[name]; {
		case more == 0:
		case strings.HasPrefix(name, resourcesSent):
			l.resources[strings.TrimPrefix(name, resourcesSent)] = more
		default:
			l.bytes += more
		}
	}
	return l, err
}

// drainTimeout is longer than an Envoy goes on with a listener that was replaced.
const drainTimeout = 90 * time.Second

// drained waits until the gateway has given up the listener that it had before there were many routes:
// until then it takes changes in the form of that one, too.
func (m *mesh) drained(ctx context.Context, r route) error {
	for ends := time.Now().Add(drainTimeout); time.Now().Before(ends); {
		before, err := m.sent(ctx)
		if err != nil {
			return err
		}
		mark := fmt.Sprint("drained-", time.Now().UnixNano())
		if _, _, err := m.answered(ctx, marked(r, backend, mark), "/", mark, http.StatusOK); err != nil {
			return err
		}
		if !wait.For(ctx, time.Second) { // the other form is sent after the answer
			return ctx.Err()
		}
		after, err := m.sent(ctx)
		if err != nil || resources(after)-resources(before) <= 1 {
			return err
		}
	}
	return nil // an edit costs more than one resource, which is told
}

// resources counts those of all types.
func resources(sent map[string]float64) (sum float64) {
	for name, count := range sent {
		if strings.HasPrefix(name, resourcesSent) {
			sum += count
		}
	}
	return sum
}

// What discovery counts of what it sends.
const (
	resourcesSent = "pgmesh_discovery_resources_total"
	bytesSent     = "pgmesh_discovery_response_bytes_sum"
)

// sent returns what discovery has sent so far.
func (m *mesh) sent(ctx context.Context) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.stack.Discovery.HTTP()+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	all := map[string]float64{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if strings.HasPrefix(name, resourcesSent) || strings.HasPrefix(name, bytesSent) {
			if all[name], err = strconv.ParseFloat(value, 64); err != nil {
				return nil, err
			}
		}
	}
	return all, lines.Err()
}

func (l large) report(out io.Writer, name string, a aims) {
	line(out, fmt.Sprintf("%s: an edit of one of %d routes", name, l.routes), l.took)
	total := 0.0
	for _, sort := range slices.Sorted(maps.Keys(l.resources)) {
		total += l.resources[sort]
		fmt.Fprintf(out, "  %.2f %s an edit\n", l.resources[sort]/float64(l.edits), sort)
	}
	fmt.Fprintf(out, "  %.0f bytes an edit are sent, which takes %.2f ms of discovery's processor time\n", l.bytes/float64(l.edits), millis(l.discovery)/float64(l.edits))
	a.verdict(out, "an edit of one route costs one resource", total == float64(l.edits))
}
