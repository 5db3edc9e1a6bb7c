// Package realenvoy runs an Envoy with a backend, for times that only real requests can show.
package realenvoy

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"

	"github.com/pgmesh/pgmesh/internal/kit/process"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
)

// Binary returns the path of Envoy: the given one, else $ENVOY, else the one that make tools
// installed.
func Binary(asked string) string {
	for _, path := range []string{asked, os.Getenv("ENVOY")} {
		if path != "" {
			return path
		}
	}
	return filepath.Join(".tools", "envoy", "envoy")
}

// Start starts Envoy with one worker. Its files are in dir.
func Start(binary, dir string, b *bootstrapv3.Bootstrap) (*process.Process, error) {
	text, err := bootstrap.JSON(b)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "envoy.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	return process.Start(exec.Command(binary, "-c", file, "--concurrency", "1", "--use-dynamic-base-id", "--drain-time-s", "45", // the drain time of mesh-agent
		"--log-level", "warn", "--log-path", logIn(dir)))
}

// Log returns the log of an Envoy with its files in dir.
func Log(dir string) string {
	text, err := os.ReadFile(logIn(dir))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func logIn(dir string) string { return filepath.Join(dir, "envoy.log") }

// Backend answers all requests.
func Backend() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }))
}

// Client keeps one connection to Envoy.
func Client() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1, DisableCompression: true}}
}

// FreePort finds a port for Envoy. It does not reserve it.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
