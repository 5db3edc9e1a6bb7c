// Package inspect is a client of a running agent: it calls the socket in the state folder and
// prints the answers.
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
	"github.com/pgmesh/pgmesh/mesh-agent/settings"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
)

// answerTimeout bounds the wait for an answer to begin. Leaving the mesh takes longest.
const answerTimeout = time.Minute

// Agent is a running agent.
type Agent struct {
	stateDir string
	client   *http.Client
}

// Find connects to the agent of a state folder.
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
	return &Agent{stateDir, &http.Client{Transport: &http.Transport{
		DialContext: dial, DisableKeepAlives: true, ResponseHeaderTimeout: answerTimeout,
	}}}, nil
}

// ErrNotRunning means that no agent uses the folder.
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

// Report returns the agent's status.
func (a *Agent) Report(ctx context.Context) (*status.Report, error) {
	report := &status.Report{}
	return report, a.get(ctx, "/status", report)
}

// Settings returns the agent's settings in force.
func (a *Agent) Settings(ctx context.Context) (all []settings.Setting, err error) {
	err = a.get(ctx, "/settings", &all)
	return all, err
}

// Raw returns an answer undecoded.
func (a *Agent) Raw(ctx context.Context, path string) ([]byte, error) {
	body, err := a.ask(ctx, http.MethodGet, path)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

// Drain makes the agent leave the mesh and drain Envoy, and returns the progress; with statusOnly,
// it only returns the progress.
func (a *Agent) Drain(ctx context.Context, statusOnly bool) (d status.DrainStatus, err error) {
	method := http.MethodPost
	if statusOnly {
		method = http.MethodGet
	}
	err = a.decode(ctx, method, "/drain", &d)
	return d, err
}

// Alone returns the hosts that would be left with no healthy machine if this one drained. An agent of
// an earlier version does not know.
func (a *Agent) Alone(ctx context.Context) (alone status.Alone, err error) {
	err = a.get(ctx, "/drain/alone", &alone)
	return alone, err
}

// Undrain takes a drain back.
func (a *Agent) Undrain(ctx context.Context) (d status.DrainStatus, err error) {
	err = a.decode(ctx, http.MethodPost, "/undrain", &d)
	return d, err
}

// ErrOlder means that the agent that runs is of an earlier version than this program.
var ErrOlder = errors.New("the agent that runs is another version, which cannot answer this: start it again")

// Rejoin has the agent take up what mesh-agent join has put into its folder.
func (a *Agent) Rejoin(ctx context.Context) (r status.Rejoined, err error) {
	err = a.decode(ctx, http.MethodPost, "/rejoin", &r)
	return r, err
}

// Stop ends the agent, and returns when that or the context has ended.
func (a *Agent) Stop(ctx context.Context) error {
	// A log being followed ends exactly when the agent does.
	lines, err := a.ask(ctx, http.MethodGet, "/logs?n=0&follow=1")
	if err != nil {
		return err
	}
	defer lines.Close()
	asked, err := a.ask(ctx, http.MethodPost, "/quitquitquit")
	if err != nil {
		return err
	}
	asked.Close()
	_, _ = io.Copy(io.Discard, lines) // any end of the stream means that the agent has ended
	return ctx.Err()
}

func (a *Agent) get(ctx context.Context, path string, into any) error {
	return a.decode(ctx, http.MethodGet, path, into)
}

func (a *Agent) decode(ctx context.Context, method, path string, into any) error {
	body, err := a.ask(ctx, method, path)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(body).Decode(into); err != nil {
		return fmt.Errorf("read the agent's answer: %w", err)
	}
	return nil
}

// ask sends a request and returns the body of a successful answer.
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
			return nil, ErrOlder
		}
		return nil, errors.New(strings.TrimSpace(string(text)))
	}
	return response.Body, nil
}
