package run

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/notify"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/supervise"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
)

// prepareEnvoy returns the supervisor of an Envoy as the flags want it and, where those are not
// set, the mesh.
func (a *agent) prepareEnvoy(ctx context.Context) (*supervise.Supervisor, error) {
	m := &a.Machine
	if err := m.ApplyMeshSettings(ctx, a.who, a.discovery, a.log); err != nil {
		return nil, err
	}
	data, err := m.Bootstrap(a.who)
	if err != nil {
		return nil, err
	}
	s, err := a.supervise(data, a.reload.reexec)
	if err != nil || m.Template == "" { // then the address of the admin API is that of the flag, which Run has checked
		return s, err
	}
	if err := s.CheckAdmin(ctx); err != nil {
		return nil, err
	}
	if err := s.Validate(ctx); err != nil {
		return nil, fmt.Errorf("--bootstrap-template %s, merged over the bootstrap of mesh-agent: %w", m.Template, err)
	}
	return s, nil
}

// supervise returns the supervisor of an Envoy with this bootstrap.
func (a *agent) supervise(data []byte, again func() error) (*supervise.Supervisor, error) {
	m, o := &a.Machine, a.Envoy
	account, err := m.EnvoyAccount()
	if err != nil {
		return nil, err
	}
	endNow := make(chan os.Signal, 1)
	o.Bootstrap, o.Args, o.Environment, o.Account = data, a.Arguments.List(), a.Arguments.Environment(), account
	o.Folder = a.envoyFolder()
	o.Tied = o.Tied || m.State.Temporary
	o.Transparent = m.Mode() == bootstrap.TProxy
	o.Reexec = again
	o.BeforeDrain = func() {
		signal.Notify(endNow, os.Interrupt, syscall.SIGTERM)
		_ = notify.ExtendTimeout("draining Envoy", max(o.DrainTime, o.DrainMin)+time.Minute)
	}
	o.EndNow = endNow
	if o.Output = a.EnvoyLog; o.Output == nil {
		o.Output = os.Stderr
	}
	o.Output = io.MultiWriter(o.Output, a.server.Lines.Writer(status.FromEnvoy))
	o.Stdout = io.MultiWriter(os.Stdout, a.server.Lines.Writer(status.FromAccess))
	o.Log = a.log
	return supervise.New(o)
}

func (a *agent) envoyFolder() string { return a.Machine.State.File("envoy") }

// checkAdmin looks, before this agent does anything in the mesh, whether its Envoy could run. A template
// may name another address than the flag, and is read later.
func (a *agent) checkAdmin(ctx context.Context) error {
	if a.Machine.Template != "" {
		return nil
	}
	return supervise.CheckAdmin(ctx, a.envoyFolder(), a.Machine.Given.Admin, a.log)
}

// endInherited ends the Envoy of an earlier agent, if this one was asked to end before it could
// adopt it.
func (a *agent) endInherited(asked context.Context) {
	if asked.Err() == nil {
		return
	}
	s, err := a.supervise(nil, nil)
	if err == nil {
		err = s.EndInherited()
	}
	if err != nil {
		a.log.Error("the Envoy of an earlier agent may run still", "error", err)
	}
}
