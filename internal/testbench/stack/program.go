package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/process"
)

// Program is one of the stack's programs, running or not. It keeps its addresses across restarts.
type Program struct {
	path    string
	args    []string
	http    string
	logFile string

	readyPath string
	running   *process.Process

	// Admin is the address of Envoy's admin API, for a mesh-agent.
	Admin string
}

// stopTimeout is how long a program may take to shut down before it is killed.
const stopTimeout = 10 * time.Second

// Start starts the program and appends to its log.
func (p *Program) Start() error {
	out, err := os.OpenFile(p.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(p.path, p.args...)
	cmd.Stdout, cmd.Stderr = out, out
	p.running, err = process.Start(cmd)
	return err
}

// Via starts the program through another command, such as ip netns exec.
func (p *Program) Via(command ...string) {
	p.path, p.args = command[0], slices.Concat(command[1:], []string{p.path}, p.args)
}

// HTTP returns the address of the program's own pages.
func (p *Program) HTTP() string { return p.http }

// Pid is the process id.
func (p *Program) Pid() int { return p.running.Pid() }

// Ready returns when the program reports that it is ready.
func (p *Program) Ready(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Millisecond) // readiness can only be polled
	defer tick.Stop()
	for {
		reason := p.Ask(ctx)
		if reason == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.running.Done():
			return fmt.Errorf("%s ended: %w\n%s", p.path, p.running.Err(), p.Log())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w\n%s", p.path, reason, p.Log())
		}
	}
}

// Ask returns why the program is not ready, or nil if it is.
func (p *Program) Ask(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.http+p.readyPath, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(string(body)))
	}
	return err
}

// Kill kills the program, like a crash.
func (p *Program) Kill() { p.running.Kill() }

// Stop shuts the program down.
func (p *Program) Stop() {
	if p.running != nil {
		p.running.Stop(stopTimeout)
	}
}

// Terminate sends SIGTERM and returns how the program ended: nil for exit code 0.
func (p *Program) Terminate(ctx context.Context) error {
	p.running.Signal(syscall.SIGTERM)
	select {
	case <-p.running.Done():
		return p.running.Err()
	case <-ctx.Done():
		return fmt.Errorf("%s has not ended: %w\n%s", p.path, ctx.Err(), p.Log())
	}
}

// Log returns everything that the program has logged.
func (p *Program) Log() string {
	text, err := os.ReadFile(p.logFile)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
