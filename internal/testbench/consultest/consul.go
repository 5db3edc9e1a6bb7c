// Package consultest gives a test a real Consul, with one server, and changes what it has.
package consultest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/pgmesh/pgmesh/internal/kit/freeport"
	"github.com/pgmesh/pgmesh/internal/kit/process"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// Consul is a server of one datacenter, which keeps what it has when it is restarted.
type Consul struct {
	// Address is host:port of its HTTP API.
	Address string
	// Secure is that of its HTTPS API, for which the configuration has to name a certificate.
	Secure string
	// WAN is host:port at which servers of other datacenters join it.
	WAN string
	// Token is sent with each request of the test.
	Token string

	t       testing.TB
	folder  string
	flags   []string
	process *process.Process
	log     bytes.Buffer
}

// Config is added to the configuration of the agent.
type Config map[string]any

// Start runs a Consul that ends with the test. It skips the test where CONSUL names no program.
func Start(t testing.TB, more Config) *Consul {
	t.Helper()
	return StartAs(t, "", more)
}

// StartAs runs a Consul that the test asks with a token.
func StartAs(t testing.TB, token string, more Config) *Consul {
	t.Helper()
	folder := t.TempDir()
	config := lasting(folder)
	maps.Copy(config, more)
	return start(t, folder, token, config)
}

// lasting keeps what there is in a folder.
func lasting(folder string) Config {
	return Config{"server": true, "bootstrap": true, "data_dir": filepath.Join(folder, "data"), "performance": Config{"raft_multiplier": 1}}
}

// StartDev runs a Consul in the mode for developers, which writes nothing to disk.
func StartDev(t testing.TB, more Config) *Consul {
	t.Helper()
	return start(t, t.TempDir(), "", more, "-dev")
}

func start(t testing.TB, folder, token string, more Config, flags ...string) *Consul {
	t.Helper()
	if os.Getenv("CONSUL") == "" {
		t.Skip("no Consul was built: make registries builds one")
	}
	c := &Consul{Token: token, t: t, folder: folder, flags: flags}
	config := Config{
		"bind_addr": "127.0.0.1", "node_name": "server", "datacenter": "dc1", "log_level": "warn", "disable_update_check": true,
		"connect": Config{"enabled": false}, "peering": Config{"enabled": false}, "ports": c.ports(),
	}
	maps.Copy(config, more)
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.folder, "consul.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.end)
	c.run()
	return c.Ready()
}

// ports are free ones. A listener that is not needed is off.
func (c *Consul) ports() Config {
	ports := Config{"dns": -1, "grpc": -1, "grpc_tls": -1}
	for _, name := range []string{"http", "https", "serf_lan", "serf_wan", "server"} {
		port, err := freeport.New()
		if err != nil {
			c.t.Fatal(err)
		}
		ports[name] = port
		switch address := "127.0.0.1:" + strconv.Itoa(port); name {
		case "http":
			c.Address = address
		case "https":
			c.Secure = address
		case "serf_wan":
			c.WAN = address
		}
	}
	return ports
}

func (c *Consul) run() {
	c.t.Helper()
	cmd := exec.Command(os.Getenv("CONSUL"), append([]string{"agent", "-config-file", filepath.Join(c.folder, "consul.json")}, c.flags...)...)
	cmd.Stdout, cmd.Stderr = &c.log, &c.log
	var err error
	if c.process, err = process.Start(cmd); err != nil {
		c.t.Fatal(err)
	}
}

// Ready waits until the server leads, and lists itself.
func (c *Consul) Ready() *Consul {
	c.t.Helper()
	poll.Eventually(c.t, func(context.Context) error {
		body, err := c.ask(http.MethodGet, "/v1/catalog/service/consul", nil)
		if err == nil && !bytes.Contains(body, []byte(`"server"`)) {
			err = fmt.Errorf("the server is not in its catalog: %s", body)
		}
		return err
	})
	return c
}

// AwaitDatacenters waits until the server knows of so many datacenters.
func (c *Consul) AwaitDatacenters(many int) {
	c.t.Helper()
	poll.Eventually(c.t, func(context.Context) error {
		body, err := c.ask(http.MethodGet, "/v1/catalog/datacenters", nil)
		if err != nil {
			return err
		}
		var found []string
		if err := json.Unmarshal(body, &found); err != nil || len(found) < many {
			return fmt.Errorf("there are the datacenters %s", body)
		}
		return nil
	})
}

func (c *Consul) end() {
	if c.process != nil {
		c.process.Kill()
	}
	if c.t.Failed() {
		c.t.Logf("Consul's log:\n%s", &c.log)
	}
}

// Kill ends the server, as a crash does.
func (c *Consul) Kill() { c.process.Kill() }

// Restart kills the server and starts it again with what it had.
func (c *Consul) Restart() {
	c.t.Helper()
	c.Kill()
	c.run()
	c.Ready()
}

// Put sends a document to a path of the API.
func (c *Consul) Put(path string, document any) []byte {
	c.t.Helper()
	text, err := json.Marshal(document)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.answer(http.MethodPut, path, text)
}

// Get asks for what is at a path of the API.
func (c *Consul) Get(path string) []byte {
	c.t.Helper()
	return c.answer(http.MethodGet, path, nil)
}

// Delete removes what is at a path of the API.
func (c *Consul) Delete(path string) {
	c.t.Helper()
	c.answer(http.MethodDelete, path, nil)
}

// errCrowded says that this machine has too many connections now. It has fewer once the registry
// has noticed.
var errCrowded = errors.New("too many connections")

// answer fails the test if there is none.
func (c *Consul) answer(method, path string, document []byte) (body []byte) {
	c.t.Helper()
	var refused error
	poll.Eventually(c.t, func(context.Context) error {
		body, refused = c.ask(method, path, document)
		if errors.Is(refused, errCrowded) {
			return refused
		}
		return nil
	})
	if refused != nil {
		c.t.Fatal(refused)
	}
	return body
}

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func (c *Consul) ask(method, path string, document []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(c.t.Context(), method, "http://"+c.Address+path, bytes.NewReader(document))
	if err != nil {
		return nil, err
	}
	request.Header.Set("X-Consul-Token", c.Token)
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if response.StatusCode == http.StatusTooManyRequests {
		err = errCrowded
	}
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: Consul answers %s: %s", method, path, response.Status, body)
	}
	return body, err
}
