package truth_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// mesh is a control plane of two servers and two discoveries, with its members.
type mesh struct {
	t           *testing.T
	postgres    *pgtest.OwnServer
	db          *pgxpool.Pool
	servers     []*stack.Program
	discoveries []*discovery
	marks       []mark
	members     []*member
}

// discovery knows of the streams to it, which end with it.
type discovery struct {
	*stack.Program

	name, xds string

	mu     sync.Mutex
	number int
	ends   map[int]func()
}

// onDeath has a function called when the discovery is killed, until what is returned is called.
func (d *discovery) onDeath(end func()) (forget func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.number++
	n := d.number
	d.ends[n] = end
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.ends, n)
	}
}

// kill kills the discovery, and ends the streams to it.
func (d *discovery) kill() {
	d.Kill()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, end := range d.ends {
		end()
	}
}

func newMesh(t *testing.T, members int) *mesh {
	t.Helper()
	m := &mesh{t: t, postgres: pgtest.Server(t)}
	namespaces := []string{"bank", "shop", "ships"}
	m.marks = marksOf(namespaces)
	m.startControl()
	var err error
	m.db, err = pgxpool.New(t.Context(), m.postgres.URL)
	require.NoError(t, err)
	t.Cleanup(m.db.Close)
	for i := range members {
		m.members = append(m.members, &member{
			mesh: m, name: fmt.Sprint("p", i), namespace: namespaces[i%len(namespaces)], whole: i%4 == 3, way: accepting, changed: make(chan struct{}),
		})
	}
	t.Cleanup(func() {
		for _, p := range m.members {
			p.vanish()
		}
	})
	return m
}

func (m *mesh) startControl() {
	m.t.Helper()
	control, err := stack.New(bin, m.t.TempDir(), m.postgres.URL)
	require.NoError(m.t, err)
	control.ServerFlags("--name", "server-1")
	second, at, err := control.AnotherServer("server-2")
	require.NoError(m.t, err)
	control.DiscoveryFlags("--name", "discovery-1", "--mcp", at)
	replica, xds, err := control.Replica(m.t.Context(), "discovery-2", "--mcp", at)
	require.NoError(m.t, err)
	m.servers = []*stack.Program{control.MCPServer, second}
	m.discoveries = []*discovery{
		{Program: control.Discovery, name: "discovery-1", xds: control.XDS, ends: map[int]func(){}},
		{Program: replica, name: "discovery-2", xds: xds, ends: map[int]func(){}},
	}
	m.t.Cleanup(m.stopControl)
	for _, p := range m.programs() {
		require.NoError(m.t, p.Start())
		require.NoError(m.t, p.Ready(m.t.Context()))
	}
}

func (m *mesh) programs() []*stack.Program {
	all := slices.Clone(m.servers)
	for _, d := range m.discoveries {
		all = append(all, d.Program)
	}
	return all
}

func (m *mesh) stopControl() {
	for _, p := range slices.Backward(m.programs()) {
		p.Stop()
		if m.t.Failed() {
			m.t.Logf("the end of the log of %s:\n%s", p.HTTP(), lastLines(p.Log(), 15))
		}
	}
}

func lastLines(text string, n int) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// well waits until all programs are ready, and both discoveries report.
func (m *mesh) well(within time.Duration) {
	m.t.Helper()
	poll.Within(m.t, within, func(ctx context.Context) error {
		for _, p := range m.programs() {
			if err := p.Ask(ctx); err != nil {
				return err
			}
		}
		for _, d := range m.discoveries {
			if err := d.reports(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// reports returns an error unless a server takes the reports of a discovery.
func (d *discovery) reports(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.HTTP()+"/metrics", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && !strings.Contains(string(body), "\npgmesh_discovery_rollout_connected 1\n") {
		err = errors.New(d.name + " does not report")
	}
	return err
}
