package mcp_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/internal/kit/freeport"
	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	"github.com/pgmesh/pgmesh/registry/mcp"
	"github.com/pgmesh/pgmesh/registry/registrytest"
	"github.com/pgmesh/pgmesh/registry/service"
)

func TestMain(m *testing.M) { os.Exit(pgtest.VerifyMain(m)) }

// open opens a registry that follows servers.
func open(t *testing.T, address, parameters string) *mcp.Registry {
	t.Helper()
	at, err := url.Parse("mcp://" + address + "?" + parameters)
	require.NoError(t, err)
	r, err := mcp.Open(at, reload.Options{})
	require.NoError(t, err)
	return r
}

// server is an mcp-server that can be ended and started again.
type server struct {
	t       *testing.T
	options serve.Options
	address string
	http    string
	stop    func()
}

func newAddress(t *testing.T) string {
	t.Helper()
	address, err := freeport.Address()
	require.NoError(t, err)
	return address
}

// run runs a server with these options.
func run(t *testing.T, o serve.Options) *server {
	t.Helper()
	address := cmp.Or(o.Listen, newAddress(t))
	o.Listen, o.HTTP.Address, o.Plaintext.Allowed, o.Log = address, "127.0.0.1:0", !o.Security.TLS.Given(), slog.New(slog.DiscardHandler)
	if o.Registries.Wait == 0 {
		o.Registries.Wait = time.Minute
	}
	s := &server{t: t, options: o, address: address}
	s.start()
	t.Cleanup(func() {
		s.stop()
		http.DefaultClient.CloseIdleConnections()
	})
	return s
}

func (s *server) start() {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended, started := make(chan error, 1), make(chan serve.Addresses, 1)
	go func() { ended <- serve.Run(ctx, s.options, func(a serve.Addresses) { started <- a }) }()
	select {
	case a := <-started:
		s.http = a.HTTP.String()
	case err := <-ended:
		cancel()
		s.t.Fatalf("the server has ended: %v", err)
	}
	s.stop = func() {
		cancel()
		require.NoError(s.t, <-ended)
		s.stop = func() {}
	}
}

func (s *server) restart() {
	s.t.Helper()
	s.stop()
	s.start()
}

// untilReady waits until /readyz says something.
func (s *server) untilReady(says string) {
	s.t.Helper()
	poll.Eventually(s.t, func(context.Context) error {
		answer, err := http.Get("http://" + s.http + "/readyz")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err == nil && !strings.Contains(string(text), says) {
			err = fmt.Errorf("/readyz says %d: %s", answer.StatusCode, text)
		}
		return err
	})
}

// untilSound waits until the server has nothing to say of its registries.
func (s *server) untilSound() { s.t.Helper(); s.untilReady("ready\n") }

// watch follows a server, and has resources by their names.
func watch(t *testing.T, address, parameters string) *registrytest.Watcher {
	t.Helper()
	return registrytest.Watch(t, open(t, address, parameters), func(k kinds.Key) string { return k.Name })
}

// inventory is a folder with a file for each service.
type inventory struct {
	t    *testing.T
	path string
	now  string // where the folder is
	has  map[string]map[string]registrytest.Instance
}

func newInventory(t *testing.T) *inventory {
	t.Helper()
	path := filepath.Join(t.TempDir(), "services")
	require.NoError(t, os.Mkdir(path, 0o755))
	return &inventory{t: t, path: path, now: path, has: map[string]map[string]registrytest.Instance{}}
}

func (i *inventory) url(name string) string { return "files://" + i.path + "?name=" + name }

// away takes the folder away, and back gives it back.
func (i *inventory) away() { i.move(i.path + ".away") }
func (i *inventory) back() { i.move(i.path) }

func (i *inventory) move(to string) {
	i.t.Helper()
	require.NoError(i.t, os.Rename(i.now, to))
	i.now = to
}

func host(service string) string { return service + ".example.com" }

func (i *inventory) register(name string, instance registrytest.Instance) {
	if i.has[name] == nil {
		i.has[name] = map[string]registrytest.Instance{}
	}
	i.has[name][instance.ID] = instance
	i.write(name)
}

func (i *inventory) deregister(name, id string) {
	delete(i.has[name], id)
	i.write(name)
}

func (i *inventory) write(name string) {
	i.t.Helper()
	path := filepath.Join(i.now, name+".yaml")
	if len(i.has[name]) == 0 {
		require.NoError(i.t, os.Remove(path))
		return
	}
	s := service.Service{Name: name, Hosts: []string{host(name)}, Ports: []service.Port{{Name: "http", Number: 80, Protocol: "HTTP"}}}
	for _, instance := range i.has[name] {
		made := service.Instance{Address: instance.Address, Ports: map[string]uint32{"http": instance.Port}, Weight: instance.Weight}
		if instance.Unhealthy {
			made.Health = service.Unhealthy
		}
		s.Instances = append(s.Instances, made)
	}
	text, err := yaml.Marshal(map[string]any{"services": []service.Service{s}})
	require.NoError(i.t, err)
	written := filepath.Join(i.t.TempDir(), "written")
	require.NoError(i.t, os.WriteFile(written, text, 0o644))
	require.NoError(i.t, os.Rename(written, path))
}

// one is an instance at an address.
func one(address string) registrytest.Instance {
	return registrytest.Instance{ID: address, Address: address, Port: 8080, Weight: 1}
}
