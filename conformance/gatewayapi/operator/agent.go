package operator

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/pgmesh/pgmesh/internal/kit/process"
	"github.com/pgmesh/pgmesh/internal/testbench/netns"
)

// agent is a mesh-agent that runs, with its Envoy.
type agent struct{ run *process.Process }

// start runs an agent on a machine, through other commands if there are any.
func (o *Operator) start(at *netns.Namespace, folder string, via []string, flags ...string) (*agent, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(folder, "mesh-agent.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	state, err := os.MkdirTemp(o.States, "agent-")
	if err != nil {
		return nil, err
	}
	cmd := at.Command(context.Background(), slices.Concat(via, []string{
		o.Agent, "run", "--config", "", "--insecure", "--tie-envoy", "--envoy", o.Envoy, "--discovery", o.Discovery,
		"--node-ip", at.IPv4.String(), "--state-dir", state, "--concurrency", "1", "--drain-time", "0s",
	}, flags)...)
	cmd.Stdout, cmd.Stderr = log, log
	run, err := process.Start(cmd)
	return &agent{run}, err
}

func (a *agent) kill() { a.run.Kill() }
