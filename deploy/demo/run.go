package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store/embedded"
)

// demo is the running parts and how to stop them, the last started first.
type demo struct {
	*options
	out      io.Writer
	log      *slog.Logger
	postgres *embedded.Server
	db       *pgx.Conn
	service  *service
	dead     chan *child
	stops    []func()
}

// errPostgresDied reports the death of Postgres, the one child that keeps its own log.
var errPostgresDied = errors.New("Postgres ended")

// run starts everything, shows it, and waits for Ctrl-C, which is no error, or for the death of a
// child.
func run(ctx context.Context, o *options, out io.Writer, log *slog.Logger) error {
	d := &demo{options: o, out: out, log: log, dead: make(chan *child, 8)}
	defer d.stop()
	err := d.startAndShow(ctx)
	if err == nil && !o.once {
		err = d.wait(ctx)
	}
	if ctx.Err() != nil {
		fmt.Fprintln(out, "\nending …")
		return nil
	}
	return err
}

func (d *demo) startAndShow(ctx context.Context) error {
	if err := d.start(ctx); err != nil {
		return err
	}
	found, err := readWeights(ctx, d.db)
	if err != nil {
		return err
	}
	d.showParts()
	if err := d.showShift(ctx, found); err != nil {
		return err
	}
	if err := d.awaitReport(ctx); err != nil {
		return err
	}
	if !d.once {
		d.showTries()
	}
	return nil
}

func (d *demo) stop() {
	for _, stop := range slices.Backward(d.stops) {
		stop()
	}
}

func (d *demo) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case c := <-d.dead:
		return c.died()
	case <-d.postgres.Done():
		return fmt.Errorf("%w, its log is in %s", errPostgresDied, d.postgres.DataDir())
	}
}

// start starts the parts in order, each when those that it needs are ready.
func (d *demo) start(ctx context.Context) error {
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"Postgres", d.startPostgres},
		{"mcp-server", d.startServer},
		{"the service in two versions", d.startHellos},
		{"discovery", d.startDiscovery},
		{"Envoy under mesh-agent", d.startAgent},
	} {
		fmt.Fprintf(d.out, "starting %s\n", step.what)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("start %s: %w", step.what, err)
		}
	}
	return nil
}

func (d *demo) startPostgres(ctx context.Context) (err error) {
	if err = os.MkdirAll(d.logs(), 0o755); err != nil {
		return err
	}
	d.postgres, err = embedded.Start(ctx, embedded.Options{
		DataDir: filepath.Join(d.data, "postgres"), Port: d.ports.postgres, Log: d.log,
	})
	if err != nil {
		return err
	}
	d.stops = append(d.stops, d.postgres.Stop)
	if d.db, err = pgx.Connect(ctx, d.postgres.URL()); err != nil {
		return err
	}
	d.stops = append(d.stops, func() { d.db.Close(context.WithoutCancel(ctx)) })
	return os.WriteFile(d.databaseFile(), []byte(d.postgres.URL()+"\n"), 0o600)
}

// databaseFile has the database's URL with its password, which is in nothing that the demo prints.
func (d *demo) databaseFile() string { return filepath.Join(d.data, "database-url") }

// startServer passes the database's password in the environment, which others cannot read.
func (d *demo) startServer(ctx context.Context) error {
	server, err := d.startChild("mcp-server", []string{"PGMESH_DATABASE=" + d.postgres.URL()}, "run", "--insecure", "--migrate",
		"--listen", local(d.ports.mcp), "--http", local(d.ports.mcpHTTP), "--api", local(d.ports.mcpAPI),
		"--state-dir", filepath.Join(d.data, "mcp-server"))
	if err != nil {
		return err
	}
	if err := server.awaitReady(ctx, "http://"+local(d.ports.mcpHTTP)+"/readyz"); err != nil {
		return err
	}
	return applyResources(ctx, d.options, d.db)
}

func (d *demo) startHellos(context.Context) error {
	for version, port := range map[string]int{"v1": d.ports.v1, "v2": d.ports.v2} {
		h, err := startHello(version, port)
		if err != nil {
			return err
		}
		d.stops = append(d.stops, h.stop)
	}
	return nil
}

func (d *demo) startDiscovery(ctx context.Context) error {
	discovery, err := d.startChild("discovery", nil, "run", "--insecure", "--mcp", local(d.ports.mcp),
		"--listen", local(d.ports.xds), "--http", local(d.ports.discoveryHTTP))
	if err != nil {
		return err
	}
	return discovery.awaitReady(ctx, "http://"+local(d.ports.discoveryHTTP)+"/readyz")
}

// clientAddress is the machine of the client, as the mesh knows it. The service has another, or the
// client would be taken for one of its instances.
const clientAddress = "127.0.0.2"

// startAgent returns when the service answers through Envoy. Envoy drains no connections at the
// end, since nobody depends on them.
func (d *demo) startAgent(ctx context.Context) error {
	agent, err := d.startChild("mesh-agent", nil, "run", "--insecure", "--tie-envoy", "--discovery", local(d.ports.xds),
		"--envoy", d.envoy, "--admin", local(d.ports.admin), "--status", local(d.ports.status), "--concurrency", "1",
		"--node-ip", clientAddress, "--id", "client.default", "--labels", "app=client",
		"--interception-mode", "NONE", "--drain-time", "0s")
	if err != nil {
		return err
	}
	if err := agent.awaitReady(ctx, "http://"+local(d.ports.admin)+"/ready"); err != nil {
		return err
	}
	d.service = &service{"http://" + local(d.ports.service) + "/", &http.Client{Timeout: time.Second}}
	d.stops = append(d.stops, d.service.client.CloseIdleConnections)
	return nil
}

func (d *demo) startChild(name string, variables []string, args ...string) (*child, error) {
	c, err := startChild(d.options, name, variables, args...)
	if err != nil {
		return nil, err
	}
	d.stops = append(d.stops, c.stop)
	go func() {
		<-c.Done()
		d.dead <- c
	}()
	return c, nil
}
