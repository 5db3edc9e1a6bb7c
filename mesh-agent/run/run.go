// Package run puts the parts of an agent together and runs them: the machine's identity, the
// connection to discovery, Envoy, and what the machine's applications and people ask.
package run

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/internal/tracing"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/scrape"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/supervise"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/sts"
	"github.com/pgmesh/pgmesh/mesh-agent/machine"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
	"github.com/pgmesh/pgmesh/mesh-agent/wasm"
)

// Options are what the flags of mesh-agent run set.
type Options struct {
	Machine   machine.Machine
	Envoy     supervise.Options // as far as flags say it
	Arguments supervise.Arguments
	Status    string // the address of the status port, "" for none
	Scrape    scrape.Options
	Exchange  sts.Options
	Wasm      wasm.Options
	Traces    tracing.Options
	EnvoyLog  io.Writer // takes what Envoy logs; standard error if nil
}

// MachineFlags declares the flags that say what the machine is and how its Envoy runs.
func (o *Options) MachineFlags(flags *pflag.FlagSet) {
	o.Machine.Flags(flags)
	o.Envoy.Flags(flags)
	o.Arguments.Flags(flags)
	flags.StringVar(&o.Status, "status", "127.0.0.1:15026", "address of /healthz/ready, /healthz/live and /metrics, empty for none")
}

// Flags declares all flags.
func (o *Options) Flags(flags *pflag.FlagSet) {
	o.MachineFlags(flags)
	o.Scrape.Flags(flags)
	o.Exchange.Flags(flags)
	o.Wasm.Flags(flags)
	o.Traces.Flags(flags)
}

// Run runs an agent until the context ends and Envoy has drained. The server, which has a log,
// tells how the agent is.
func Run(ctx context.Context, o *Options, server *status.Server) error {
	reload := newReloadSignals()
	m := &o.Machine
	release, err := m.State.Lock(m.Identity.Insecure)
	if err != nil {
		return err
	}
	defer release()
	a := &agent{Options: o, reload: reload, server: server, log: server.Log}
	ctx, server.Stop = context.WithCancel(ctx)
	defer server.Stop()
	defer a.close()
	if err := a.checkAdmin(ctx); err != nil {
		return err
	}
	if err := a.open(ctx); err != nil {
		return err
	}
	if err := a.run(ctx); err != nil {
		return fmt.Errorf("run Envoy: %w", err)
	}
	return nil
}
