package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/freeport"
	"github.com/pgmesh/pgmesh/internal/kit/process"
	"github.com/pgmesh/pgmesh/internal/testbench/consultest"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// unused is a port for a program that does not share it.
func unused(t *testing.T) string {
	t.Helper()
	port, err := freeport.New()
	require.NoError(t, err)
	return strconv.Itoa(port)
}

// sidecar runs Consul's own proxy beside a service.
func sidecar(t *testing.T, c *consultest.Consul, service string) {
	t.Helper()
	cmd := exec.Command(os.Getenv("CONSUL"), "connect", "proxy", "-sidecar-for", service, "-http-addr", c.Address)
	log := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = log, log
	p, err := process.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() {
		if p.Kill(); t.Failed() {
			t.Logf("the log of the proxy of %s:\n%s", service, log)
		}
	})
}

// Both meshes run: a client moves, and then the service, as docs/from-consul.md tells. At no step does
// a client lack an answer.
func TestMovingFromConsul(t *testing.T) {
	t.Parallel()
	c := consultest.StartDev(t, consultest.Config{"connect": consultest.Config{"enabled": true}})
	web := newBackend(t, "web", nil)
	upstream, port := unused(t), envoytest.Port(t)
	is := page(t, "../../../docs/from-consul.md",
		"8080", web.port, "21000", unused(t), "21001", unused(t), "9191", upstream,
		`"number": 80`, fmt.Sprintf(`"number": %d`, port), `"protocol": "http"}`, fmt.Sprintf(`"protocol": "http", "mesh-port": "%d"}`, port))
	require.Len(t, is["json"], 2)
	require.Len(t, is["sql"], 2)
	for i, name := range []string{"web", "shop"} {
		c.Put("/v1/agent/service/register", json.RawMessage(is["json"][i]))
		sidecar(t, c, name)
	}
	client := newClient(t)
	byConsul := func(ctx context.Context) error {
		a, err := send(ctx, client, address(upstream), request{host: "web"})
		if err != nil {
			return err
		}
		return a.from("web")
	}
	within(t, time.Minute, byConsul) // Consul looks every ten seconds whether a proxy listens

	database := pgtest.New(t)
	control := newStack(t, database)
	control.ServerFlags("--registry", "consul://"+c.Address+"?hosts=short", "--announce", "consul://"+c.Address)
	require.NoError(t, control.Start(t.Context()))
	m := meshWithoutEnvoy(t, control, database)
	m.port = fmt.Sprint(port)
	m.startAgent()
	m.answers("web.service.consul", "web")
	require.NoError(t, byConsul(t.Context()), "both ways answer")

	m.transaction(func(tx pgx.Tx) { paste(t, tx, is["sql"][0]) })
	announced := func(ids int) {
		t.Helper()
		eventually(t, func(context.Context) error {
			var found []struct{ Service struct{ ID string } }
			if err := json.Unmarshal(c.Get("/v1/health/service/web?passing"), &found); err != nil {
				return err
			}
			if len(found) != ids {
				return fmt.Errorf("Consul has %v, not %d", found, ids)
			}
			return nil
		})
	}
	announced(2)
	m.answers("web.service.consul", "web")
	m.transaction(func(tx pgx.Tx) { paste(t, tx, is["sql"][1]) })
	eventually(t, func(ctx context.Context) error {
		a, err := m.ask(ctx, request{host: "web.service.consul", path: "/old"})
		if err == nil && a.status != http.StatusMovedPermanently {
			err = errors.New("the rule is not in force")
		}
		return err
	})
	require.NoError(t, byConsul(t.Context()), "clients that have not moved are answered still")

	c.Put("/v1/agent/service/deregister/web", nil)
	announced(1)
	for range 50 {
		a, err := m.ask(t.Context(), request{host: "web.service.consul"})
		require.NoError(t, err)
		require.NoError(t, a.from("web"))
	}
}

func paste(t *testing.T, tx pgx.Tx, sql string) {
	t.Helper()
	_, err := tx.Exec(t.Context(), sql)
	require.NoError(t, err)
}
