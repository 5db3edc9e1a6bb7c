package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/host/check"
	"github.com/pgmesh/pgmesh/mesh-agent/host/redirect"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/join"
	"github.com/pgmesh/pgmesh/mesh-agent/inspect"
)

const checkHelp = `Look whether this machine has what mesh-agent run needs, with the flags and the configuration file that it would have: the clock, ports, discovery
and its identity, this machine's identity, the state folder, the kernel, limits, memory, Envoy, redirection and resolvers. Nothing is changed.

Each line says ok, warning or failure; beneath the latter two stands what to do.

What counts is what the agent may do, and not who looks. Root has it looked at as the unit mesh-agent.service would run the agent: with its account, its
capabilities and limits, its variables, and no more of the machine than it sees. The first line says for which account it was judged.

Exit code 0: nothing keeps the agent from working. 1: there is a failure.`

// checkCommand looks whether the agent would work on this machine.
func checkCommand() *cobra.Command {
	var o runSettings
	var as judged
	var output string
	cmd := &cobra.Command{
		Use: "check", Short: "Look whether this machine has what it takes", Long: checkHelp, Args: cobra.NoArgs,
		Example: "  mesh-agent check\n  mesh-agent check --redirect -o json | jq '.[] | select(.state != \"ok\")'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			found := as.judge(cmd.Context(), func() []check.Finding { return check.Run(cmd.Context(), o.checks(cmd.Context(), as.synchronized)...) })
			if err := writeFindings(cmd, output, found); err != nil {
				return err
			}
			if check.Failed(found) {
				return program.Exit(1)
			}
			return nil
		},
	}
	o.declare(cmd)
	as.declare(cmd)
	outputFlag(cmd, &output, "table", "json")
	return cmd
}

func writeFindings(cmd *cobra.Command, output string, found []check.Finding) error {
	if output == "table" {
		return check.Write(cmd.OutOrStdout(), found)
	}
	encoder := json.NewEncoder(cmd.OutOrStdout())
	encoder.SetIndent("", "  ")
	return encoder.Encode(found)
}

func (o *runSettings) checks(ctx context.Context, synchronized func() (bool, error)) []check.Check {
	m := &o.Machine
	credentials, _ := m.Identity.Credential.Secrets()
	m.Identity.Credential = join.Credential{} // a check must not join
	servers, _ := m.Servers()                 // check.Discovery reports it if there are none
	system := check.System{
		Root: "/", StateDir: m.State.Path, Envoy: o.Envoy.Envoy, Files: check.OpenFiles(), Free: check.Free,
		ResolvConf: m.DNS.ResolvConf, Nameservers: redirect.Nameservers(m.DNS.ResolvConf),
		Redirected: m.Redirect.On, Transparent: m.Mode() == bootstrap.TProxy,
	}
	all := []check.Check{
		check.Clock(time.Now, synchronized, o.tlsServers(servers)),
		o.identityCheck,
		check.Discovery(servers, o.reach),
		check.Ports(o.ports(), o.running(ctx)),
		check.Services(o.servicePorts()),
		check.Files(credentials, check.Warning), // needed until this machine is a member
		check.Files([]string{m.Template}, check.Failure),
		system.Kernel, system.Limits, system.Network, system.Memory, system.Program, system.Resolver,
	}
	if !m.Identity.Insecure {
		all = append(all, system.State)
	}
	if m.Redirect.On {
		all = append(all, check.Trial("redirection", "this machine can redirect traffic", "correct that, or leave --redirect out: applications may connect to Envoy's own ports "+
			"instead, or use it as an HTTP proxy (docs/redirection.md)", o.tryRedirect))
	}
	if m.Redirect.On && m.DNS.On() {
		all = append(all, check.Routes(m.Given.IP))
	}
	return all
}

// tlsServers returns the servers if they use TLS.
func (o *runSettings) tlsServers(servers []string) []string {
	if o.Machine.Identity.Insecure {
		return nil
	}
	return servers
}

// discardLog is for parts that would log what the check says anyway.
var discardLog = slog.New(slog.DiscardHandler)

func (o *runSettings) identityCheck(ctx context.Context) []check.Finding {
	const part = "identity"
	if o.Machine.Identity.Insecure {
		return []check.Finding{{Part: part, State: check.Warning, Says: "--insecure: this machine has none, and everybody on the way reads along", Do: "for a demo alone; join otherwise"}}
	}
	who, err := o.Machine.Member(ctx, discardLog, nil)
	if err != nil {
		return []check.Finding{{Part: part, State: check.Failure, Says: err.Error()}}
	}
	now := who.Status()
	f := check.Finding{Part: part, State: check.OK, Says: "this machine is " + now.ID}
	if !now.Until.IsZero() {
		f.Says += ", until " + now.Until.UTC().Format(time.RFC3339)
	}
	if now.Trouble != "" {
		f.State, f.Do = check.Warning, now.Trouble
	}
	return []check.Finding{f}
}

// connectTimeout bounds the attempt to connect to a discovery.
const connectTimeout = 5 * time.Second

// reach connects to one discovery with this machine's identity, and verifies it as the agent would.
func (o *runSettings) reach(ctx context.Context, server string) (name string, err error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	one := o.Machine
	one.Discovery.Addresses = []string{server}
	who, err := one.Member(ctx, discardLog, nil)
	if err != nil {
		return "", checkReachable(ctx, server, err)
	}
	discovery, err := one.Connect(who, discardLog, nil)
	if err != nil {
		return "", err
	}
	defer discovery.Close()
	for {
		now, changed := discovery.Status()
		switch {
		case now.Connected:
			return now.Discovery, nil
		case now.Error != nil:
			return "", now.Error
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", errors.New("no answer")
		}
	}
}

// checkReachable is for a machine without an identity, which discovery need not answer: it checks
// only that something listens.
func checkReachable(ctx context.Context, server string, none error) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", server)
	if err != nil {
		return err
	}
	conn.Close()
	return fmt.Errorf("it can be reached; who it is cannot be told without an identity: %w", none)
}

func (o *runSettings) ports() []check.Port {
	m := &o.Machine
	all := []check.Port{
		{What: "Envoy's admin API", Address: m.Given.Admin, Flag: "admin"},
		{What: "the agent's status", Address: o.Status, Flag: "status"},
	}
	if m.DNS.On() {
		for _, at := range m.DNS.Listen {
			all = append(all, check.Port{What: "the agent's resolver", Address: at, Flag: "dns-listen", UDP: true})
		}
	}
	if m.Mode() != bootstrap.None {
		all = append(all, check.Port{What: "Envoy's outbound listener", Address: ":15001"}, check.Port{What: "Envoy's inbound listener", Address: ":15006"})
	}
	return all
}

// running reports whether an agent answers for this state folder.
func (o *runSettings) running(ctx context.Context) bool {
	agent, err := inspect.Find(o.Machine.State.Path)
	if err != nil {
		return false
	}
	_, err = agent.Report(ctx)
	return err == nil
}

func (o *runSettings) servicePorts() map[string]uint32 {
	all := map[string]uint32{}
	for _, s := range o.Machine.Services() {
		for name, port := range s.Ports {
			all[s.Group+"'s "+name] = port
		}
	}
	return all
}

func (o *runSettings) tryRedirect(ctx context.Context) error {
	if err := o.Machine.CheckRedirect(); err != nil {
		return err
	}
	plan, err := o.plan(ctx, o.Machine.DefaultListeners())
	if err != nil {
		return err
	}
	kernel, err := redirect.Open(ctx, o.Machine.Redirect.By, plan)
	if err != nil {
		return err
	}
	return kernel.Check(ctx, plan)
}
