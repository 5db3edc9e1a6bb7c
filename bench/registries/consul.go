package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/process"
	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/internal/testbench/realenvoy"
)

// consul is a server that keeps nothing on disk.
type consul struct {
	address string
	process *process.Process
	client  *http.Client
}

// object is one of JSON.
type object map[string]any

const startTimeout = 30 * time.Second

func startConsul(ctx context.Context, binary, folder string) (*consul, error) {
	ports := object{"dns": -1, "grpc": -1, "grpc_tls": -1, "https": -1}
	for _, name := range []string{"http", "serf_lan", "serf_wan", "server"} {
		port, err := realenvoy.FreePort()
		if err != nil {
			return nil, err
		}
		ports[name] = port
	}
	config, err := json.Marshal(object{
		"bind_addr": "127.0.0.1", "node_name": "server", "log_level": "warn", "disable_update_check": true, "ports": ports,
		"connect": object{"enabled": false}, "peering": object{"enabled": false},
	})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(folder, "consul.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return nil, err
	}
	c := &consul{address: fmt.Sprint("127.0.0.1:", ports["http"]), client: &http.Client{}}
	if c.process, err = process.Start(exec.Command(binary, "agent", "-dev", "-config-file", file)); err != nil {
		return nil, fmt.Errorf("%w: make registries builds one", err)
	}
	return c, c.ready(ctx)
}

func (c *consul) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for wait.For(ctx, 20*time.Millisecond) {
		if body, _, err := c.ask(ctx, http.MethodGet, "/v1/catalog/service/consul", nil); err == nil && bytes.Contains(body, []byte(`"server"`)) {
			return nil
		}
	}
	return errors.New("Consul does not lead")
}

// ask returns the answer, with its index.
func (c *consul) ask(ctx context.Context, method, path string, document any) (body []byte, index string, err error) {
	text, err := json.Marshal(document)
	if err != nil {
		return nil, "", err
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+c.address+path, bytes.NewReader(text))
	if err != nil {
		return nil, "", err
	}
	response, err := c.client.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: Consul answers %s: %s", method, path, response.Status, body)
	}
	return body, response.Header.Get("X-Consul-Index"), err
}

func (c *consul) put(ctx context.Context, path string, document any) error {
	_, _, err := c.ask(ctx, http.MethodPut, path, document)
	return err
}

// tells returns when a client that waits for a service alone is told of its next change.
func (c *consul) tells(ctx context.Context, service string) (<-chan time.Time, error) {
	path := "/v1/health/service/" + service
	_, index, err := c.ask(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	told := make(chan time.Time, 1)
	go func() {
		defer close(told)
		if _, _, err := c.ask(ctx, http.MethodGet, path+"?index="+index, nil); err == nil {
			told <- time.Now()
		}
	}()
	return told, nil
}

const (
	instances = 5   // of each of the other services
	nodes     = 500 // that have them
	most      = 60  // operations of a transaction
)

// fill registers other services.
func (c *consul) fill(ctx context.Context, services int) error {
	var operations []object
	add := func(o object) error {
		if operations = append(operations, o); len(operations) < most {
			return nil
		}
		all := operations
		operations = nil
		return c.put(ctx, "/v1/txn", all)
	}
	for n := range nodes {
		if err := add(object{"Node": object{"Verb": "set", "Node": object{"Node": "node-" + strconv.Itoa(n), "Address": "127.0.0.1"}}}); err != nil {
			return err
		}
	}
	for i := range services * instances {
		name := "service-" + strconv.Itoa(i/instances)
		if err := add(object{"Service": object{"Verb": "set", "Node": "node-" + strconv.Itoa(i%nodes), "Service": object{
			"ID": name + "-" + strconv.Itoa(i%instances), "Service": name, "Address": fmt.Sprintf("10.%d.%d.1", i/250, i%250), "Port": 8080,
			"Meta": object{"protocol": "http"},
		}}}); err != nil {
			return err
		}
	}
	if len(operations) == 0 {
		return nil
	}
	return c.put(ctx, "/v1/txn", operations)
}
