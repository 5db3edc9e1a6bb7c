package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mesh-agent/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/check"
	"github.com/pgmesh/pgmesh/mesh-agent/inspect"
	"github.com/pgmesh/pgmesh/mesh-agent/redirect"
)

const checkHelp = `Look whether this machine has what mesh-agent run needs, with the flags and the configuration file that it would have: the clock, ports, discovery
and its identity, this machine's identity, the state folder, the kernel, limits, memory, Envoy, redirection and resolvers. Nothing is changed.

Each line says ok, warning or failure; beneath the latter two stands what to do. Run it as the account that the agent has.

Exit code 0: nothing keeps the agent from working. 1: there is a failure.`

// checkCommand is the preflight.
func checkCommand() *cobra.Command {
	var p planned
	var output string
	cmd := &cobra.Command{
		Use: "check", Short: "Look whether this machine has what it takes", Long: checkHelp, Args: cobra.NoArgs,
		Example: "  mesh-agent check\n  mesh-agent check --redirect -o json | jq '.[] | select(.state != \"ok\")'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return fmt.Errorf("-o %s: choose table or json", output)
			}
			found := check.Run(cmd.Context(), p.checks(cmd.Context())...)
			if err := writeFindings(cmd, output, found); err != nil {
				return err
			}
			if check.Failed(found) {
				return program.Exit(1)
			}
			return nil
		},
	}
	p.declare(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "table", "how to print it: table or json")
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

func (p *planned) checks(ctx context.Context) []check.Check {
	m := &p.member
	m.credential = credentialFlags{} // nobody joins to look
	servers, _ := m.servers()        // that there are none is told
	system := check.System{
		Root: "/", StateDir: m.state.folder, Envoy: p.envoy.program, Files: check.OpenFiles(), Free: check.Free,
		ResolvConf: m.dns.resolvConf, Nameservers: redirect.Nameservers(m.dns.resolvConf),
		Redirected: m.redirect.on, Transparent: m.mode() == bootstrap.TProxy,
	}
	all := []check.Check{
		check.Clock(time.Now, check.Synchronized, p.secured(servers)),
		p.identityCheck,
		check.Discovery(servers, p.reach),
		check.Ports(p.ports(), p.running(ctx)),
		check.Services(p.servicePorts()),
		system.Kernel, system.Limits, system.Network, system.Memory, system.Program, system.Resolver,
	}
	if !m.insecure {
		all = append(all, system.State)
	}
	if m.redirect.on {
		all = append(all, check.Trial("redirection", "this machine can redirect traffic", "correct that, or leave --redirect out: applications may connect to Envoy's own ports "+
			"instead, or use it as an HTTP proxy (docs/redirection.md)", p.tryRedirect))
	}
	if m.redirect.on && m.dns.on() {
		all = append(all, check.Routes(deviceOf(m.options.IP)))
	}
	return all
}

// secured are the servers that show a certificate.
func (p *planned) secured(servers []string) []string {
	if p.member.insecure {
		return nil
	}
	return servers
}

// quiet is for the parts that log: what is wrong is told once.
var quiet = slog.New(slog.DiscardHandler)

func (p *planned) identityCheck(ctx context.Context) []check.Finding {
	const part = "identity"
	if p.member.insecure {
		return []check.Finding{{Part: part, State: check.Warning, Says: "--insecure: this machine has none, and everybody on the way reads along", Do: "for a demo alone; join otherwise"}}
	}
	who, err := p.member.machine(ctx, quiet, nil)
	if err != nil {
		return []check.Finding{{Part: part, State: check.Failure, Says: err.Error()}}
	}
	now := who.status()
	f := check.Finding{Part: part, State: check.OK, Says: "this machine is " + now.ID}
	if !now.Until.IsZero() {
		f.Says += ", until " + now.Until.UTC().Format(time.RFC3339)
	}
	if now.Trouble != "" {
		f.State, f.Do = check.Warning, now.Trouble
	}
	return []check.Finding{f}
}

// reachLimit is how long a discovery may take to answer.
const reachLimit = 5 * time.Second

// reach connects to one discovery as who this machine is, and believes it as the agent would.
func (p *planned) reach(ctx context.Context, server string) (name string, err error) {
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	one := p.member
	one.discovery.addresses = []string{server}
	who, err := one.machine(ctx, quiet, nil)
	if err != nil {
		return "", one.knocks(ctx, server, err)
	}
	discovery, err := one.connect(who, quiet, nil)
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

// knocks is for a machine without an identity, which discovery need not answer: whether it is there at all.
func (m *member) knocks(ctx context.Context, server string, none error) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", server)
	if err != nil {
		return err
	}
	conn.Close()
	return fmt.Errorf("it can be reached; who it is cannot be told without an identity: %w", none)
}

func (p *planned) ports() []check.Port {
	m := &p.member
	all := []check.Port{
		{What: "Envoy's admin API", Address: m.options.Admin, Flag: "admin"},
		{What: "the agent's status", Address: p.envoy.status, Flag: "status"},
	}
	if m.dns.on() {
		for _, at := range m.dns.listen {
			all = append(all, check.Port{What: "the agent's resolver", Address: at, Flag: "dns-listen", UDP: true})
		}
	}
	if m.mode() != bootstrap.None {
		all = append(all, check.Port{What: "Envoy's outbound listener", Address: ":15001"}, check.Port{What: "Envoy's inbound listener", Address: ":15006"})
	}
	return all
}

// running tells whether an agent answers for this state folder.
func (p *planned) running(ctx context.Context) bool {
	agent, err := inspect.Find(p.member.state.folder)
	if err != nil {
		return false
	}
	_, err = agent.Report(ctx)
	return err == nil
}

func (p *planned) servicePorts() map[string]uint32 {
	all := map[string]uint32{}
	for _, s := range p.member.services() {
		for name, port := range s.Ports {
			all[s.Group+"'s "+name] = port
		}
	}
	return all
}

func (p *planned) tryRedirect(ctx context.Context) error {
	if err := p.member.checkRedirect(); err != nil {
		return err
	}
	plan, err := p.plan(ctx, p.member.usualListeners())
	if err != nil {
		return err
	}
	kernel, err := redirect.Open(ctx, p.member.redirect.by, plan)
	if err != nil {
		return err
	}
	return kernel.Check(ctx, plan)
}

// deviceOf is the network interface with an address.
func deviceOf(ip string) string {
	interfaces, _ := net.Interfaces()
	own, _ := netip.ParseAddr(ip)
	for _, i := range interfaces {
		addresses, _ := i.Addrs()
		for _, a := range addresses {
			p, err := netip.ParsePrefix(a.String())
			if err == nil && (p.Addr() == own || !own.IsValid() && p.Addr().IsGlobalUnicast()) {
				return i.Name
			}
		}
	}
	return "eth0"
}
