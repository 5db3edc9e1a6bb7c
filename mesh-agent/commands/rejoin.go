package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pgmesh/pgmesh/identity/membership"
	"github.com/pgmesh/pgmesh/mesh-agent/inspect"
)

// anewTimeout bounds the wait for an agent that starts anew. It asks discovery how to start Envoy first.
const anewTimeout = 30 * time.Second

// takeUp has an agent that runs with this folder take up that its machine has joined, and says how.
// Without an agent it says nothing. An error says what makes the agent take it up.
func takeUp(ctx context.Context, stateDir string, joined *membership.State) (said string, err error) {
	agent, err := inspect.Find(stateDir)
	if errors.Is(err, inspect.ErrNotRunning) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("the machine has joined, but whether an agent runs that has to be told cannot be found out: %w", err)
	}
	report, err := agent.Report(ctx)
	if err != nil {
		return "", fmt.Errorf("the machine has joined, but the agent that runs does not answer: %w; start it again: systemctl restart mesh-agent", err)
	}
	pid := report.Agent.PID
	r, err := agent.Rejoin(ctx)
	switch {
	case errors.Is(err, inspect.ErrOlder):
		return "", fmt.Errorf("the machine has joined, but the agent that runs is of an earlier version, and goes on as it was: have it start anew, "+
			"which cuts nothing: kill -HUP %d", pid)
	case err != nil:
		return "", fmt.Errorf("the machine has joined, but the agent that runs (process %d) goes on as it was: %w (systemctl restart mesh-agent, if systemd runs it)", pid, err)
	case !r.Anew:
		return fmt.Sprintf("the agent that runs (process %d) has taken that up, and nothing was interrupted", pid), nil
	}
	if err := awaitAnew(ctx, agent, report.Agent.Since, joined.ID.String()); err != nil {
		return "", fmt.Errorf("the machine has joined, and the agent that runs (process %d) starts anew to take that up, but is not back: %w; see mesh-agent logs, "+
			"or start it again: systemctl restart mesh-agent", pid, err)
	}
	return fmt.Sprintf("the agent that runs (process %d) has started anew to take that up, and its Envoy goes on or is replaced without losing a request", pid), nil
}

// awaitAnew waits until the agent that began after a time says that it is somebody.
func awaitAnew(ctx context.Context, agent *inspect.Agent, before time.Time, id string) error {
	ctx, cancel := context.WithTimeout(ctx, anewTimeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		report, err := agent.Report(ctx)
		if err == nil && report.Agent.Since.After(before) && report.Identity != nil && report.Identity.ID == id {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if err == nil {
				err = fmt.Errorf("it has not become %s within %s", id, anewTimeout)
			}
			return err
		}
	}
}
