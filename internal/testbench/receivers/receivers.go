// Package receivers gives a test what others have written to receive traces and logs:
// OpenTelemetry's collector, Zipkin, and Datadog's agent for tests of tracers. `make receivers`
// brings them, which takes minutes the first time, and runs the tests that ask for them.
package receivers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/freeport"
	"github.com/pgmesh/pgmesh/internal/kit/process"
	"github.com/pgmesh/pgmesh/internal/testbench/journal"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// startTimeout bounds how long a receiver may take to start: Zipkin is of Java, and large.
const startTimeout = 2 * time.Minute

// tools returns the folder that `make receivers` fills. Without that the test is skipped.
func tools(t testing.TB) string {
	t.Helper()
	folder := os.Getenv("RECEIVERS")
	if folder == "" {
		t.Skip("no receivers: `make receivers` brings some, which takes minutes the first time, and runs these tests")
	}
	return folder
}

// receiver is a program that runs for one test.
type receiver struct {
	name    string
	process *process.Process
	log     journal.Journal
}

// start runs a program until the test ends, and returns when it is ready.
func (r *receiver) start(t testing.TB, cmd *exec.Cmd, ready func(context.Context) error) {
	t.Helper()
	r.name = filepath.Base(cmd.Path)
	cmd.Stdout, cmd.Stderr = &r.log, &r.log
	var err error
	if r.process, err = process.Start(cmd); err != nil {
		t.Fatalf("%v: run `make receivers`", err)
	}
	t.Cleanup(func() {
		r.process.Kill()
		if t.Failed() {
			t.Logf("the log of %s:\n%s", r.name, r.log.String())
		}
	})
	poll.Within(t, startTimeout, func(ctx context.Context) error {
		select {
		case <-r.process.Done():
			t.Fatalf("%s has ended: %s", r.name, r.process.ExitStatus())
		default:
		}
		return ready(ctx)
	})
}

// newPort is one for a receiver.
func newPort(t testing.TB) string {
	t.Helper()
	port, err := freeport.New()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(port)
}

// client keeps no idle connections, which goleak would report as leaked goroutines.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// get decodes the JSON at an address. With nil it asks only whether there is an answer.
func get(ctx context.Context, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s answers %s: %s", url, resp.Status, body)
	case into == nil:
		return nil
	}
	return json.Unmarshal(body, into)
}
