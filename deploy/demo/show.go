package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
)

// shiftLimit bounds the measured shift; a mesh that takes this long is broken.
const shiftLimit = 30 * time.Second

func (d *demo) showParts() {
	fmt.Fprintln(d.out)
	table := tabwriter.NewWriter(d.out, 0, 0, 3, ' ', 0)
	for _, row := range [][3]string{
		{"Postgres", local(d.ports.postgres), "URL in " + d.databaseFile() + ", data in " + d.postgres.DataDir()},
		{"mcp-server", local(d.ports.mcp), "serves the mesh's configuration; http://" + local(d.ports.mcpAPI) + "/v1/status"},
		{"discovery", local(d.ports.xds), "turns it into Envoy's; http://" + local(d.ports.discoveryHTTP) + "/metrics"},
		{"Envoy", local(d.ports.service), "hello.demo, for clients on this machine; admin http://" + local(d.ports.admin)},
		{"mesh-agent", local(d.ports.status), "runs Envoy; metrics of both: http://" + local(d.ports.status) + "/stats/prometheus"},
		{"hello v1", local(d.ports.v1), "the service"},
		{"hello v2", local(d.ports.v2), "its new version"},
	} {
		fmt.Fprintf(table, "  %s\t%s\t%s\n", row[0], row[1], row[2])
	}
	table.Flush()
	fmt.Fprintf(d.out, "  Logs are in %s.\n\n", d.logs())
}

// showShift shifts all requests to the other version and back. It leaves weights that divide the
// requests alone: then an answer from a version proves nothing.
func (d *demo) showShift(ctx context.Context, found weights) error {
	if found.only() == "" {
		fmt.Fprintf(d.out, "The canary stands as an earlier start left it: %s. Set one of them to 0 to see the shift measured.\n\n", found)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, shiftLimit)
	defer cancel()
	if err := d.firstAnswer(ctx, found.only()); err != nil {
		return err
	}
	there, err := d.service.shift(ctx, d.db, found.opposite())
	if err != nil {
		return fmt.Errorf("shift the canary to %s: %w", found.opposite().only(), err)
	}
	back, err := d.service.shift(ctx, d.db, found)
	if err != nil {
		return fmt.Errorf("shift the canary back: %w", err)
	}
	fmt.Fprintf(d.out, "The canary was shifted once, by one UPDATE. From COMMIT to the first answer from %s: %s. And back: %s.\n\n",
		found.opposite().only(), milliseconds(there), milliseconds(back))
	return nil
}

// firstAnswer waits until the service answers through Envoy, which takes a moment after Envoy is
// ready.
func (d *demo) firstAnswer(ctx context.Context, version string) error {
	return d.until(ctx, func() (bool, error) { return d.service.ask(ctx) == greeting(version), nil },
		fmt.Sprintf("no answer from %s through Envoy on %s", version, local(d.ports.service)))
}

// awaitReport waits until the database shows what Envoy runs, which the README asks for next.
func (d *demo) awaitReport(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shiftLimit)
	defer cancel()
	const failed = "mesh.proxies does not show what Envoy runs"
	return d.until(ctx, func() (shown bool, err error) {
		err = d.db.QueryRow(ctx, "SELECT EXISTS (SELECT FROM mesh.proxies WHERE state = 'synced')").Scan(&shown)
		if err != nil {
			err = fmt.Errorf("%s: look at %s: %w", failed, d.logs(), err)
		}
		return shown, err
	}, failed)
}

// until asks again and again until the answer is yes. It ends with an error when the context or a
// part of the demo ends.
func (d *demo) until(ctx context.Context, is func() (bool, error), failed string) error {
	ask := time.NewTicker(readyInterval)
	defer ask.Stop()
	for {
		if yes, err := is(); yes || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: look at %s", failed, d.logs())
		case c := <-d.dead:
			return c.died()
		case <-ask.C:
		}
	}
}

// logs is the folder with the logs of the parts.
func (d *demo) logs() string { return filepath.Join(d.data, "logs") }

func (d *demo) showTries() {
	client := strings.Join(append([]string{filepath.Join(d.binShown(), "mcp-client")}, clientArgs(d.options)...), " ")
	fmt.Fprintf(d.out, `Try, in another terminal:

  shift a third of the requests to v2
    %s

  look at the rule
    %s get virtualservice hello -o yaml

  see who answers
    for i in $(seq 9); do curl -s -H 'Host: hello.demo' http://%s/; done

Ctrl-C ends everything. If one part ends, so do the others.
`, d.shiftLine(client), client, local(d.ports.service))
}

// shiftLine returns a command that shifts traffic: with psql if that is installed, otherwise with
// mcp-client.
func (d *demo) shiftLine(client string) string {
	if _, err := exec.LookPath("psql"); err == nil {
		return fmt.Sprintf(`psql "$(cat %s)" -c "`+shiftSQL+`"`, d.databaseFile(), 67, 33)
	}
	return fmt.Sprintf(`sed -e 's/weight: 100/weight: 67/' -e 's/weight: 0/weight: 33/' %s | %s apply -f -`,
		filepath.Join(d.data, "canary.yaml"), client)
}

// binShown returns the folder of the programs as a user would type it.
func (d *demo) binShown() string {
	here, err := filepath.Abs(".")
	if err != nil {
		return d.bin
	}
	relative, err := filepath.Rel(here, d.bin)
	if err != nil || strings.HasPrefix(relative, "..") {
		return d.bin
	}
	return relative
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
