package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/mesh-agent/envoy/envoyadmin"
	"github.com/pgmesh/pgmesh/mesh-agent/host/redirect"
)

const redirectHelp = `See, apply and take away the rules that send this machine's connections through Envoy. mesh-agent run --redirect does all of it by itself; these
commands are for looking, trying and mending. They take the flags of mesh-agent run, and its configuration file.`

// redirectCommand manages the rules by hand.
func redirectCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "redirect", Short: "See, apply and take away the rules that send connections through Envoy", Long: redirectHelp}
	cmd.AddCommand(redirectPlanCommand(), redirectApplyCommand(), redirectRemoveCommand(), redirectStatusCommand())
	return cmd
}

func (o *runSettings) command(use, short, long string, do func(context.Context, io.Writer) error) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Args: cobra.NoArgs}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o.Machine.Redirect.On = true
		if err := o.Machine.CheckRedirect(); err != nil {
			return err
		}
		return do(cmd.Context(), cmd.OutOrStdout())
	}
	o.declare(cmd)
	return cmd
}

// plan returns the plan for an Envoy with these listeners.
func (o *runSettings) plan(ctx context.Context, l redirect.Listeners) (redirect.Plan, error) {
	return o.Machine.RedirectPlanner(o.Status)(ctx, l)
}

const redirectPlanHelp = `Print the rules that mesh-agent run --redirect would make on this machine, each with what it does in words. Nothing is changed.

What is printed is what nft, or iptables-restore --noflush, would be given: --redirect-by chooses.`

func redirectPlanCommand() *cobra.Command {
	var o runSettings
	return o.command("plan", "Print the rules, and what they do, without applying them", redirectPlanHelp, func(ctx context.Context, out io.Writer) error {
		listeners, err := redirect.AskListeners(ctx, o.askEnvoy)
		if err != nil {
			listeners = o.Machine.DefaultListeners() // a plan can be made while no Envoy runs
		}
		plan, err := o.plan(ctx, listeners)
		if err != nil {
			return err
		}
		by := o.Machine.Redirect.By
		if by == redirect.Auto {
			by = redirect.Preferred()
		}
		if by == redirect.ByNFT {
			fmt.Fprint(out, plan.NFT())
			return nil
		}
		if err := redirect.CheckProgram(by); err != nil {
			return err
		}
		fmt.Fprintf(out, "# IPv4\n%s\n# IPv6\n%s", plan.IPTables(false, ""), plan.IPTables(true, ""))
		return nil
	})
}

const redirectApplyHelp = `Apply the rules now, for the Envoy that runs on this machine, and have them count for a while: after that they match nothing, and can be taken
away with mesh-agent redirect remove. An agent that runs with --redirect confirms and removes them itself.`

func redirectApplyCommand() *cobra.Command {
	var o runSettings
	within := 5 * time.Minute
	cmd := o.command("apply", "Apply the rules for a while", redirectApplyHelp, func(ctx context.Context, out io.Writer) error {
		o.Machine.Redirect.Timeout = within
		listeners, err := redirect.AskListeners(ctx, o.askEnvoy)
		if err != nil {
			return fmt.Errorf("%w; connections are redirected only to an Envoy that takes them: start one with mesh-agent run --interception-mode REDIRECT", err)
		}
		plan, err := o.plan(ctx, listeners)
		if err != nil {
			return err
		}
		kernel, err := redirect.Open(ctx, o.Machine.Redirect.By, plan)
		if err != nil {
			return err
		}
		if err := kernel.Apply(ctx, plan); err != nil {
			return err
		}
		fmt.Fprintf(out, "applied with %s; the rules count until %s, or until mesh-agent redirect remove\n", kernel, time.Now().Add(within).Format(time.TimeOnly))
		return nil
	})
	cmd.Flags().DurationVar(&within, "for", within, "how long the rules count")
	cmd.Example = "  mesh-agent redirect apply --for 2m --redirect-outbound-ports 80,443"
	return cmd
}

// askEnvoy calls the admin API at the address of --admin.
func (o *runSettings) askEnvoy(ctx context.Context, path string) (string, error) {
	answer, err := envoyadmin.At(func() (string, error) { return o.Machine.Given.Admin, nil }).Text(ctx, path)
	if errors.Is(err, envoyadmin.ErrNotRunning) {
		err = fmt.Errorf("%w; if it is somewhere else, say where with --admin", err)
	}
	return answer, err
}

func redirectRemoveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "remove", Short: "Take the rules away, whoever has made them", Args: cobra.NoArgs,
		Long: "Take the rules away, of nft and iptables alike. Connections that were redirected end with them. Those who have rules of other names keep them.\n" +
			"An agent that runs with --redirect makes its rules again: end that first.",
	}
	var table string
	redirect.TableFlag(cmd.Flags(), &table)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		removed, err := redirect.RemoveAll(cmd.Context(), table)
		for _, by := range removed {
			fmt.Fprintf(cmd.OutOrStdout(), "removed the rules %s of %s\n", table, by)
		}
		if err == nil && len(removed) == 0 {
			fmt.Fprintf(cmd.OutOrStdout(), "there are no rules %s\n", table)
		}
		return err
	}
	return cmd
}

func redirectStatusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "Print which rules there are, whether they count, and what they have redirected", Args: cobra.NoArgs,
	}
	var table, output string
	redirect.TableFlag(cmd.Flags(), &table)
	outputFlag(cmd, &output, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		states, err := states(cmd.Context(), table)
		if err != nil {
			return err
		}
		if output == "json" {
			encoder := json.NewEncoder(cmd.OutOrStdout())
			encoder.SetIndent("", "  ")
			return encoder.Encode(states)
		}
		writeStates(cmd.OutOrStdout(), table, states)
		return nil
	}
	return cmd
}

func states(ctx context.Context, table string) ([]redirect.State, error) {
	found, err := redirect.Find(ctx, table)
	all := []redirect.State{}
	for _, k := range found {
		state, e := k.State(ctx, redirect.Plan{Table: table})
		err = errors.Join(err, e)
		all = append(all, state)
	}
	return all, err
}

func writeStates(out io.Writer, table string, states []redirect.State) {
	if len(states) == 0 {
		fmt.Fprintf(out, "nothing is redirected: there are no rules %s\n", table)
		return
	}
	for _, s := range states {
		switch {
		case s.By != redirect.ByNFT:
			fmt.Fprintf(out, "rules %s of %s; they count while the agent confirms them (mesh-agent status)\n", table, s.By)
		case s.Confirmed > 0:
			fmt.Fprintf(out, "rules %s of %s, confirmed for another %s\n", table, s.By, s.Confirmed)
		default:
			fmt.Fprintf(out, "rules %s of %s, which match nothing: no agent has confirmed them in time\n", table, s.By)
		}
		for _, c := range s.Counts {
			fmt.Fprintf(out, "  %8d  %s\n", c.Count, c.Why)
		}
	}
}
