package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/netns"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "pgmesh-release-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // apt and Postgres read there as other accounts
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	site = filepath.Join(dir, "site")
	if there := os.Getenv("RELEASE_SITE"); there != "" {
		site = there
	}
	return pgtest.Main(m)
}

// site has the releases of these tests. RELEASE_SITE names one that has them already, made with the
// url below, for those who change the tests.
var site string

// Two releases, one after the other.
const before, after = "1.0.0~rc1", "1.0.0"

// address is where machines of a switch find the site.
const address = "http://10.77.0.1:8000"

// made is locked while a release is made, and has those that were.
var made struct {
	sync.Mutex
	releases map[string]error
}

// publish makes a release for this machine's architecture, once.
func publish(t *testing.T, version string) {
	t.Helper()
	if testing.Short() {
		t.Skip("it makes releases: make test-release")
	}
	made.Lock()
	defer made.Unlock()
	err, ok := made.releases[version]
	if _, missing := os.Stat(filepath.Join(site, version)); !ok && missing != nil {
		o := options{version: version, site: site, url: address, arches: []string{runtime.GOARCH}, parts: allParts}
		var r *release
		if r, err = o.complete(t.Context(), t.Output()); err == nil {
			err = r.make(t.Context())
		}
		if made.releases == nil {
			made.releases = map[string]error{}
		}
		made.releases[version] = err
	}
	require.NoError(t, err)
}

// serve serves the site in a network, as any web server would.
func serve(t *testing.T, network *netns.Namespace) {
	t.Helper()
	listener := network.Listen("tcp", "10.77.0.1:8000")
	server := &http.Server{Handler: http.FileServer(http.Dir(site))}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
}

// need skips a test that the machine lacks a program for.
func need(t *testing.T, programs ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root starts machines and containers")
	}
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("this machine has no %s: tools/machine-packages installs it", program)
		}
	}
}
