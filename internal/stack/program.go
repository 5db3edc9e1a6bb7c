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

	"github.com/pgmesh/pgmesh/internal/process"
)

// Program is one of the programs, running or not. It keeps its addresses when it is started again.
type Program struct {
	path    string
	args    []string
	http    string
	logFile string

	readyPath string
	running   *process.Process

	// Admin is where the Envoy of a mesh-agent answers about itself.
	Admin string
}

// stopWithin is how long a program may take to end in good order before it is killed.
const stopWithin = 10 * time.Second

// Start starts the program. Its log is appended to.
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

// Via makes a command start the program: ip netns exec, for one.
func (p *Program) Via(command ...string) {
	p.path, p.args = command[0], slices.Concat(command[1:], []string{p.path}, p.args)
}

// HTTP is where the program answers about itself.
func (p *Program) HTTP() string { return p.http }

// Pid is the process id.
func (p *Program) Pid() int { return p.running.Pid() }

// Ready returns when the program says that it is.
func (p *Program) Ready(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Millisecond) // there is no event to wait for from outside but the answer itself
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

// Ask is why the program is not ready; nil if it is.
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

// Kill ends the program as a crash does.
func (p *Program) Kill() { p.running.Kill() }

// Stop ends the program in good order.
func (p *Program) Stop() {
	if p.running != nil {
		p.running.Stop(stopWithin)
	}
}

// Terminate asks the program to end and returns how it did: nil stands for exit code 0.
func (p *Program) Terminate(ctx context.Context) error {
	p.running.Signal(syscall.SIGTERM)
	select {
	case <-p.running.Done():
		return p.running.Err()
	case <-ctx.Done():
		return fmt.Errorf("%s has not ended: %w\n%s", p.path, ctx.Err(), p.Log())
	}
}

// Log is all that the program has written.
func (p *Program) Log() string {
	text, err := os.ReadFile(p.logFile)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
