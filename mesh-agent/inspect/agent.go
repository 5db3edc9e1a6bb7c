// Package inspect is how people look at an agent that runs: it asks over the socket in the state folder, and prints what there is to know.
package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
)

// within is how long an agent may take to begin to answer.
const within = 10 * time.Second

// Agent is one that runs.
type Agent struct {
	stateDir string
	client   *http.Client
}

// Find finds the agent of a state folder.
func Find(stateDir string) (*Agent, error) {
	path, err := listen.UnixPath("state-dir", stateDir, status.SocketName)
	if err != nil {
		return nil, err
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, explain(stateDir, path, err)
	}
	conn.Close()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	return &Agent{stateDir, &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true, ResponseHeaderTimeout: within}}}, nil
}

// ErrNotRunning is that of a folder without an agent.
var ErrNotRunning = errors.New("no mesh-agent runs")

func explain(stateDir, path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s is for another account: do this as root (sudo mesh-agent …), or as the account that the agent runs as", path)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		err := fmt.Errorf("%w with the state folder %s: start it (systemctl start mesh-agent, or mesh-agent run), or name the folder of the one that does run with --state-dir",
			ErrNotRunning, stateDir)
		if _, none := os.Stat(stateDir); errors.Is(none, fs.ErrNotExist) {
			err = fmt.Errorf("%w (there is no such folder)", err)
		}
		return err
	default:
		return fmt.Errorf("reach the agent: %w", err)
	}
}

// Report is how the agent is.
func (a *Agent) Report(ctx context.Context) (*status.Report, error) {
	report := &status.Report{}
	return report, a.get(ctx, "/status", report)
}

func (a *Agent) get(ctx context.Context, path string, into any) error {
	body, err := a.ask(ctx, http.MethodGet, path)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(body).Decode(into); err != nil {
		return fmt.Errorf("read the agent's answer: %w", err)
	}
	return nil
}

// ask returns the body of an answer that is a good one.
func (a *Agent) ask(ctx context.Context, method, path string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := a.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the agent: %w", err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		defer response.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10))
		if response.StatusCode == http.StatusNotFound {
			return nil, errors.New("the agent that runs is another version, which cannot answer this: start it again")
		}
		return nil, errors.New(strings.TrimSpace(string(text)))
	}
	return response.Body, nil
}
