package commands

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mesh-agent/host/dns"
	"github.com/pgmesh/pgmesh/mesh-agent/host/dns/claim"
	"github.com/pgmesh/pgmesh/mesh-agent/host/resolver"
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
	var o resolver.Options
	cmd := &cobra.Command{
		Use: "lookup NAME", Short: "Print what the agent's resolver answers for a name, and why", Long: dnsLookupHelp, Args: cobra.ExactArgs(1),
		Example: "  mesh-agent dns lookup reviews.shop",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(o.Listen) == 0 {
				return resolver.ErrNoAddress
			}
			lines, err := dns.Explain(cmd.Context(), o.Listen[0], args[0])
			for _, line := range lines {
				fmt.Fprintln(cmd.OutOrStdout(), line)
			}
			return err
		},
	}
	o.ClaimFlags(cmd.Flags())
	new(configFlag).declare(cmd)
	return cmd
}

const dnsApplyHelp = `Have programs on this machine ask the agent's resolver for names, as mesh-agent run --dns does by itself where it is root; this is for
an agent that is not, and its unit does it. The resolver has to run. It may be repeated; mesh-agent dns restore takes it back.

systemd-resolved is told to ask the agent for all names, unless --dns-domains says for which: a mesh that changes is not followed.`

func dnsApplyCommand() *cobra.Command {
	var o resolver.Options
	var state statedir.Folder
	cmd := &cobra.Command{
		Use: "apply", Short: "Have programs on this machine ask the agent's resolver", Long: dnsApplyHelp, Args: cobra.NoArgs,
		Example: "  mesh-agent dns apply --dns auto",
		RunE: func(cmd *cobra.Command, _ []string) error {
			did, err := o.Apply(cmd.Context(), state.Path, program.Log(cmd))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), did)
			return err
		},
	}
	cmd.Flags().StringVar(&o.Mode, "dns", string(claim.Off), "how: resolved, resolv.conf, or auto, as the machine is; off and serve change nothing")
	o.ClaimFlags(cmd.Flags())
	state.Flags(cmd.Flags())
	new(configFlag).declare(cmd)
	return cmd
}

func dnsRestoreCommand() *cobra.Command {
	var o resolver.Options
	var state statedir.Folder
	cmd := &cobra.Command{
		Use: "restore", Short: "Have programs on this machine ask for names as they did without the agent", Args: cobra.NoArgs,
		Long: "Have programs on this machine ask for names as they did without the agent. An agent that runs with --dns other than serve or off tells them anew.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			did, err := o.Machine(state.Path, program.Log(cmd)).Restore()
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
	o.ClaimFlags(cmd.Flags())
	state.Flags(cmd.Flags())
	new(configFlag).declare(cmd)
	return cmd
}
