// Package envoytest runs a real Envoy for a test. It starts Envoy with the test's bootstrap, waits
// until it is ready, gives access to its admin API, and stops it when the test ends. A failing test
// prints Envoy's log.
package envoytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/kit/process"
)

// startLimit bounds every wait for Envoy. Only a broken Envoy reaches it.
const startLimit = 30 * time.Second

// Envoy is a running Envoy that belongs to one test.
type Envoy struct {
	// Admin is the base URL of the admin API: "http://127.0.0.1:43210".
	Admin string

	process *process.Process
	log     *log
}

// Start runs Envoy and returns when its workers accept connections: then it has its static
// resources and the initial resources from xDS. A free port replaces the bootstrap's admin address.
func Start(t testing.TB, bootstrap *bootstrapv3.Bootstrap) *Envoy {
	t.Helper()
	e := Launch(t, bootstrap)
	e.WaitReady(t)
	return e
}

// Launch is Start without waiting for readiness: only the admin API is up.
func Launch(t testing.TB, bootstrap *bootstrapv3.Bootstrap) *Envoy {
	t.Helper()
	folder := t.TempDir()
	adminFile := filepath.Join(folder, "admin")
	cmd := exec.Command(Binary(t),
		"--config-path", write(t, folder, withFreeAdmin(bootstrap)),
		"--admin-address-path", adminFile,
		"--concurrency", "1",
		"--disable-hot-restart", // no shared memory, so that any number of Envoys run side by side
		"--log-level", "warning",
		"--component-log-level", "main:info,config:info", // the two events that log.go waits for
	)
	e := &Envoy{log: newLog()}
	cmd.Stderr = e.log
	var err error
	if e.process, err = process.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.stop(t) })

	e.await(t, e.log.running, "run its main loop")
	address, err := os.ReadFile(adminFile)
	if err != nil {
		t.Fatalf("read the admin address that Envoy wrote: %v", err)
	}
	e.Admin = "http://" + strings.TrimSpace(string(address))
	return e
}

// WaitReady returns when Envoy accepts connections. Envoy logs "starting workers" just before it
// opens its ports, on the thread that also serves the admin API. So once that API answers after the
// log line, the ports are open.
func (e *Envoy) WaitReady(t testing.TB) {
	t.Helper()
	e.await(t, e.log.ready, "start its workers")
	e.Get(t, "/ready")
}

// Validate fails the test unless Envoy accepts the bootstrap (envoy --mode validate).
func Validate(t testing.TB, bootstrap *bootstrapv3.Bootstrap) {
	t.Helper()
	if reason := Refusal(t, bootstrap); reason != "" {
		t.Fatalf("Envoy refuses the bootstrap: %s", reason)
	}
}

// Refusal returns why Envoy refuses the bootstrap, or "" if it accepts it.
func Refusal(t testing.TB, bootstrap *bootstrapv3.Bootstrap) string {
	t.Helper()
	cmd := exec.Command(Binary(t), "--mode", "validate", "--disable-hot-restart", "--log-level", "warning",
		"--config-path", write(t, t.TempDir(), bootstrap))
	output, err := cmd.CombinedOutput()
	if err != nil {
		return err.Error() + "\n" + string(output)
	}
	return ""
}

func (e *Envoy) await(t testing.TB, event <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-event:
	case <-e.process.Done():
		t.Fatalf("Envoy ended before it could %s: %v", what, e.process.Err())
	case <-time.After(startLimit):
		t.Fatalf("Envoy did not %s within %s", what, startLimit)
	}
}

// stop stops Envoy. It fails the test if Envoy had already ended, because that was a crash.
func (e *Envoy) stop(t testing.TB) {
	t.Helper()
	select {
	case <-e.process.Done():
		t.Errorf("Envoy ended during the test: %v", e.process.Err())
	default:
		e.process.Kill()
	}
	if t.Failed() {
		t.Logf("Envoy's log, without its preamble:\n%s", e.log.brief())
	}
}

func withFreeAdmin(bootstrap *bootstrapv3.Bootstrap) *bootstrapv3.Bootstrap {
	b := proto.CloneOf(bootstrap)
	b.Admin = &bootstrapv3.Admin{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
		SocketAddress: &corev3.SocketAddress{Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{}},
	}}}
	return b
}

func write(t testing.TB, folder string, bootstrap *bootstrapv3.Bootstrap) string {
	t.Helper()
	data, err := protojson.Marshal(bootstrap)
	if err != nil {
		t.Fatalf("marshal the bootstrap: %v", err)
	}
	file := filepath.Join(folder, "bootstrap.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
