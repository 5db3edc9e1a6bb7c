package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mesh-agent/host/dns"
	"github.com/pgmesh/pgmesh/mesh-agent/host/dns/claim"
	"github.com/pgmesh/pgmesh/mesh-agent/host/statedir"
)

func dnsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "dns", Short: "Look at how names are resolved on this machine, and have programs ask the mesh, or not"}
	cmd.AddCommand(dnsLookupCommand(), dnsApplyCommand(), dnsRestoreCommand())
	return cmd
}

const dnsLookupHelp = `Print what the agent's resolver answers for a name, and why: whether it is one of the mesh, by which of its names, or who else said so.

The same without this program: dig -p 15053 @127.0.0.1 CH TXT NAME`

func dnsLookupCommand() *cobra.Command {
	var f dnsFlags
	cmd := &cobra.Command{
		Use: "lookup NAME", Short: "Print what the agent's resolver answers for a name, and why", Long: dnsLookupHelp, Args: cobra.ExactArgs(1),
		Example: "  mesh-agent dns lookup reviews.shop",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(f.listen) == 0 {
				return errors.New("where is the resolver? Say it with --dns-listen host:port")
			}
			lines, err := dns.Explain(cmd.Context(), f.listen[0], args[0])
			for _, line := range lines {
				fmt.Fprintln(cmd.OutOrStdout(), line)
			}
			return err
		},
	}
	f.declareClaim(cmd.Flags())
	new(configFlag).declare(cmd)
	return cmd
}

const dnsApplyHelp = `Have programs on this machine ask the agent's resolver for names, as mesh-agent run --dns does by itself where it is root; this is for
an agent that is not, and its unit does it. The resolver has to run. It may be repeated; mesh-agent dns restore takes it back.

systemd-resolved is told to ask the agent for all names, unless --dns-domains says for which: a mesh that changes is not followed.`

func dnsApplyCommand() *cobra.Command {
	var f dnsFlags
	var state statedir.Folder
	cmd := &cobra.Command{
		Use: "apply", Short: "Have programs on this machine ask the agent's resolver", Long: dnsApplyHelp, Args: cobra.NoArgs,
		Example: "  mesh-agent dns apply --dns auto",
		RunE: func(cmd *cobra.Command, _ []string) error {
			did, err := f.apply(cmd.Context(), state, program.Log(cmd))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), did)
			return err
		},
	}
	cmd.Flags().StringVar(&f.mode, "dns", string(claim.Off), "how: resolved, resolv.conf, or auto, as the machine is; off and serve change nothing")
	f.declareClaim(cmd.Flags())
	state.Flags(cmd.Flags())
	new(configFlag).declare(cmd)
	return cmd
}

func (f *dnsFlags) apply(ctx context.Context, state statedir.Folder, log *slog.Logger) (string, error) {
	mode, err := claim.ParseMode(f.mode)
	if err != nil {
		return "", err
	}
	on := f.machine(state, log)
	if mode, err = on.Choose(mode); err != nil {
		return "", err
	}
	if mode != claim.Resolved && mode != claim.ResolvConf {
		return fmt.Sprintf("nothing is changed with --dns %s; resolved, resolv.conf and auto have this machine ask the agent", mode), nil
	}
	server, err := f.running(ctx, mode)
	if err != nil {
		return "", err
	}
	c := claim.Claim{Mode: mode, Server: server, Domains: f.domains, Others: on.Upstreams()}
	if mode == claim.Resolved && len(c.Domains) == 0 {
		c.Domains = []string{claim.Everything}
	}
	changed, err := on.Apply(c)
	switch {
	case err != nil:
		return "", err
	case !changed:
		return "this machine asks " + c.Server.String() + " already", nil
	default:
		return "this machine asks " + c.Server.String() + " for names, by " + string(mode) + "; mesh-agent dns restore takes that back", nil
	}
}

// running returns the address of a running resolver, so that the machine is not pointed at nothing.
func (f *dnsFlags) running(ctx context.Context, mode claim.Mode) (netip.AddrPort, error) {
	var failed error
	candidates := f.listen
	if mode == claim.ResolvConf {
		candidates = append(slices.Clone(f.listen), dns.Port53Addresses()...)
	}
	for _, text := range candidates {
		at, err := netip.ParseAddrPort(text)
		if err != nil {
			return at, fmt.Errorf("--dns-listen %s: expected an address with a port, as 127.0.0.1:53", text)
		}
		if mode == claim.ResolvConf && at.Port() != 53 {
			continue // resolv.conf has no ports
		}
		if _, err = dns.Explain(ctx, text, "localhost"); err == nil {
			return at, nil
		}
		failed = errors.Join(failed, err)
	}
	if failed == nil {
		failed = errors.New("where is the resolver? Say it with --dns-listen host:port")
	}
	return netip.AddrPort{}, failed
}

func dnsRestoreCommand() *cobra.Command {
	var f dnsFlags
	var state statedir.Folder
	cmd := &cobra.Command{
		Use: "restore", Short: "Have programs on this machine ask for names as they did without the agent", Args: cobra.NoArgs,
		Long: "Have programs on this machine ask for names as they did without the agent. An agent that runs with --dns other than serve or off tells them anew.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			did, err := f.machine(state, program.Log(cmd)).Restore()
			if err != nil {
				return err
			}
			if did == "" {
				did = "nothing was changed on this machine"
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), did)
			return err
		},
	}
	f.declareClaim(cmd.Flags())
	state.Flags(cmd.Flags())
	new(configFlag).declare(cmd)
	return cmd
}
