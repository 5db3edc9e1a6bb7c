package main

import (
	"context"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/bench/timing"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
	"github.com/pgmesh/pgmesh/store/embedded"
	"github.com/pgmesh/pgmesh/store/migration"
)

// startDatabase starts a Postgres with the schema in its first database.
func startDatabase(ctx context.Context, settings map[string]string) (*embedded.Server, error) {
	server, err := embedded.Start(ctx, embedded.Options{Settings: settings})
	if err != nil {
		return nil, err
	}
	if err := migration.Up(ctx, server.URL()); err != nil {
		server.Stop()
		return nil, err
	}
	return server, nil
}

// newDatabase creates another database with the schema.
func newDatabase(ctx context.Context, server *embedded.Server, name string) (url string, err error) {
	conn, err := pgx.Connect(ctx, server.URL())
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	return server.Database(name), migration.Up(ctx, server.Database(name))
}

func execute(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

// timesTable prints one distribution per line.
type timesTable struct{ *tabwriter.Writer }

func newTimesTable(title string) timesTable {
	fmt.Fprintf(os.Stdout, "\n%s\n\n", title)
	t := timesTable{tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', tabwriter.AlignRight)}
	fmt.Fprintln(t, "\tp50\tp95\tp99\tmax\t")
	return t
}

func (t timesTable) line(name string, sorted []time.Duration) {
	fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t\n", name, millis(timing.Percentile(sorted, 50)), millis(timing.Percentile(sorted, 95)),
		millis(timing.Percentile(sorted, 99)), millis(timing.Percentile(sorted, 100)))
}

// meanwhile prints how quiet the machine was.
func meanwhile(start usage.Time) {
	fmt.Fprintf(os.Stdout, "\nMachine meanwhile: %s\n", usage.Now().Since(start))
}
