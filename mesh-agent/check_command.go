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
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/host/check"
	"github.com/pgmesh/pgmesh/mesh-agent/host/redirect"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/join"
	"github.com/pgmesh/pgmesh/mesh-agent/inspect"
)

const checkHelp = `Look whether this machine has what mesh-agent run needs, with the flags and the configuration file that it would have: the clock, ports, discovery
and its identity, this machine's identity, the state folder, the kernel, limits, memory, Envoy, redirection and resolvers. Nothing is changed.

Each line says ok, warning or failure; beneath the latter two stands what to do. Run it as the account that the agent has.

Exit code 0: nothing keeps the agent from working. 1: there is a failure.`

// checkCommand is the preflight check.
func checkCommand() *cobra.Command {
	var p runSettings
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

func (p *runSettings) checks(ctx context.Context) []check.Check {
	m := &p.member
	m.credential = join.Credential{} // a check must not join
	servers, _ := m.servers()        // check.Discovery reports it if there are none
	system := check.System{
		Root: "/", StateDir: m.state.Path, Envoy: p.envoy.program, Files: check.OpenFiles(), Free: check.Free,
		ResolvConf: m.dns.resolvConf, Nameservers: redirect.Nameservers(m.dns.resolvConf),
		Redirected: m.redirect.on, Transparent: m.mode() == bootstrap.TProxy,
	}
	all := []check.Check{
		check.Clock(time.Now, check.Synchronized, p.tlsServers(servers)),
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

// tlsServers returns the servers if they use TLS.
func (p *runSettings) tlsServers(servers []string) []string {
	if p.member.insecure {
		return nil
	}
	return servers
}

// discardLog is for parts that log what the check reports anyway.
var discardLog = slog.New(slog.DiscardHandler)

func (p *runSettings) identityCheck(ctx context.Context) []check.Finding {
	const part = "identity"
	if p.member.insecure {
		return []check.Finding{{Part: part, State: check.Warning, Says: "--insecure: this machine has none, and everybody on the way reads along", Do: "for a demo alone; join otherwise"}}
	}
	who, err := p.member.machine(ctx, discardLog, nil)
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

// connectTimeout bounds the attempt to connect to a discovery.
const connectTimeout = 5 * time.Second

// reach connects to one discovery with this machine's identity, and verifies it as the agent would.
func (p *runSettings) reach(ctx context.Context, server string) (name string, err error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	one := p.member
	one.discovery.Addresses = []string{server}
	who, err := one.machine(ctx, discardLog, nil)
	if err != nil {
		return "", one.checkReachable(ctx, server, err)
	}
	discovery, err := one.connect(who, discardLog, nil)
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

// checkReachable is for a machine without an identity, which discovery need not answer: it checks only that
// something listens.
func (m *member) checkReachable(ctx context.Context, server string, none error) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", server)
	if err != nil {
		return err
	}
	conn.Close()
	return fmt.Errorf("it can be reached; who it is cannot be told without an identity: %w", none)
}

func (p *runSettings) ports() []check.Port {
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

// running reports whether an agent answers for this state folder.
func (p *runSettings) running(ctx context.Context) bool {
	agent, err := inspect.Find(p.member.state.Path)
	if err != nil {
		return false
	}
	_, err = agent.Report(ctx)
	return err == nil
}

func (p *runSettings) servicePorts() map[string]uint32 {
	all := map[string]uint32{}
	for _, s := range p.member.services() {
		for name, port := range s.Ports {
			all[s.Group+"'s "+name] = port
		}
	}
	return all
}

func (p *runSettings) tryRedirect(ctx context.Context) error {
	if err := p.member.checkRedirect(); err != nil {
		return err
	}
	plan, err := p.plan(ctx, p.member.defaultListeners())
	if err != nil {
		return err
	}
	kernel, err := redirect.Open(ctx, p.member.redirect.by, plan)
	if err != nil {
		return err
	}
	return kernel.Check(ctx, plan)
}

// deviceOf returns the network interface with an address.
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
