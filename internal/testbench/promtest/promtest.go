// Package promtest gives a test a real Prometheus, and promtool. It starts Prometheus with the
// test's configuration, asks it queries, and stops it when the test ends.
package promtest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pgmesh/pgmesh/internal/kit/freeport"
	"github.com/pgmesh/pgmesh/internal/kit/process"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// Prometheus is a running server that belongs to one test.
type Prometheus struct {
	// Address is host:port of its API.
	Address string

	process *process.Process
}

// Start runs Prometheus with the text of a prometheus.yml and returns when it answers. Paths in the
// configuration are relative to the folder.
func Start(t testing.TB, folder, config string) *Prometheus {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary(t, "prometheus"),
		"--config.file", file, "--storage.tsdb.path", t.TempDir(), "--web.listen-address", address, "--log.level", "warn",
		"--query.lookback-delta", "1m",
	)
	var log bytes.Buffer
	cmd.Stderr = &log
	p := &Prometheus{Address: address}
	if p.process, err = process.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.stop(t, &log) })
	poll.Eventually(t, p.ready)
	return p
}

// stop kills Prometheus, which need not keep what it has, and then shows the log of a test that
// failed.
func (p *Prometheus) stop(t testing.TB, log *bytes.Buffer) {
	t.Helper()
	p.process.Kill()
	if t.Failed() {
		t.Logf("Prometheus' log:\n%s", log)
	}
}

func (p *Prometheus) ready(ctx context.Context) error {
	select {
	case <-p.process.Done():
		return fmt.Errorf("Prometheus has ended: %s", p.process.ExitStatus())
	default:
	}
	_, err := p.get(ctx, "/-/ready")
	return err
}

// client keeps no idle connections, which goleak would report as leaked goroutines.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
