package identity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// Machines returns the command machines.
func Machines(s *session.Session) *cobra.Command {
	p := program{s}
	return arguments.Listing(&cobra.Command{
		Use:     "machines",
		Aliases: []string{"machine"},
		Short:   "See which machines have registered their services, and take out those that are gone",
		Long: `See which machines have registered their services, and take out those that are gone.

A machine registers each of its services for a WorkloadGroup while its agent is connected to discovery, and has a WorkloadEntry for it. When it is
gone without a word, that stays for a grace period (mcp-server run --workload-grace). Who has a certificate is another question:
mcp-client identity list.

It takes the scope read of the namespace, and write to take out.`,
	}, p.listMachinesCommand(), p.showMachineCommand(), p.removeMachineCommand())
}

// registered is the printed form of one service of a machine.
type registered struct {
	Namespace      string            `json:"namespace"`
	Machine        string            `json:"machine"`
	Group          string            `json:"group"`
	State          string            `json:"state"`
	Entry          string            `json:"entry,omitempty"`
	Refused        string            `json:"refused,omitempty"`
	Address        string            `json:"address,omitempty"`
	Network        string            `json:"network,omitempty"`
	Locality       string            `json:"locality,omitempty"`
	Health         string            `json:"health"`
	Detail         string            `json:"detail,omitempty"`
	ServiceAccount string            `json:"serviceAccount"`
	Enrolment      string            `json:"enrolment,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	Ports          map[string]uint32 `json:"ports,omitempty"`
	Weight         uint32            `json:"weight,omitempty"`
	Discovery      string            `json:"discovery"`
	Server         string            `json:"server"`
	Since          *time.Time        `json:"since,omitempty"`
	Registered     *time.Time        `json:"registeredAt,omitempty"`
	Gone           *time.Time        `json:"goneAt,omitempty"`
}

func (p program) registered(ctx context.Context, namespaces []string, machine, group string) ([]registered, error) {
	resp, err := session.Call(ctx, p.Session, adminv1.NewRegisteredMachineServiceClient, adminv1.RegisteredMachineServiceClient.ListRegisteredMachines,
		&adminv1.ListRegisteredMachinesRequest{Namespaces: namespaces, Machine: machine, Group: group})
	if err != nil {
		return nil, err
	}
	list := []registered{}
	for _, m := range resp.GetMachines() {
		list = append(list, registered{
			m.GetNamespace(), m.GetMachine(), m.GetGroup(), m.GetState(), m.GetEntry(), m.GetRefused(), m.GetAddress(), m.GetNetwork(), m.GetLocality(), m.GetHealth(), m.GetDetail(),
			m.GetServiceAccount(), m.GetEnrolment(), m.GetLabels(), m.GetPorts(), m.GetWeight(), m.GetDiscovery(), m.GetServer(),
			output.TimeOf(m.GetSince()), output.TimeOf(m.GetRegisteredAt()), output.TimeOf(m.GetGoneAt()),
		})
	}
	return list, nil
}

func (p program) listMachinesCommand() *cobra.Command {
	var group string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the machines with their services",
		Long: `List the machines with their services, a line a service: whether the machine is here or gone and since when, and how the service is by its probe, or
draining, if mesh-agent drain has taken the machine out: since when, and whether connections are left, say -o wide and show. One that is refused has no
WorkloadEntry: show says why.`,
		Example: `  mcp-client machines list -n shop
  mcp-client machines list -A --group cart -o wide`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := p.registered(cmd.Context(), p.Namespace.Requested(), "", group)
			if err != nil {
				return err
			}
			return p.PrintListing(machineListing(list))
		},
	}
	cmd.Flags().StringVar(&group, "group", "", "only of one WorkloadGroup")
	return cmd
}

func machineListing(list []registered) output.Listing {
	out := output.Listing{
		Tree: list, Columns: []string{"NAMESPACE", "MACHINE", "GROUP", "ADDRESS", "STATE", "HEALTH", "SINCE"},
		Wide: []string{"ENTRY", "NETWORK", "LOCALITY", "SERVICE ACCOUNT", "ENROLMENT", "DISCOVERY", "SERVER", "REGISTERED", "DETAIL"},
	}
	for _, m := range list {
		state := m.State
		if m.Refused != "" && state == "here" {
			state = "refused"
		}
		out.Add(m.Machine, m.Namespace, m.Machine, m.Group, words.OrDash(m.Address), state, m.Health, words.ShortTime(cmp.Or(m.Gone, m.Since)),
			words.OrDash(m.Entry), words.OrDash(m.Network), words.OrDash(m.Locality), m.ServiceAccount, words.OrDash(m.Enrolment), m.Discovery, m.Server, words.ShortTime(m.Registered), words.OrDash(m.Detail))
	}
	return out
}

func (p program) showMachineCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show MACHINE",
		Short: "Tell everything of one machine: its services, how they are, and why one is refused",
		Example: `  mcp-client machines show -n shop cart-1
  mcp-client machines show -n shop cart-1 -o yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := p.machineNamed(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if len(list) == 0 {
				return fmt.Errorf("no machine %s has registered a service%s: mcp-client machines list has those there are", args[0], p.inNamespaces())
			}
			if p.Output.IsTree() || p.Output.Format != output.Table {
				return p.PrintListing(machineListing(list))
			}
			for i, m := range list {
				if err := p.showMachine(m, i > 0); err != nil {
					return err
				}
			}
			return nil
		},
		ValidArgsFunction: p.completeRegistered,
	}
}

// machineName takes a word for a machine apart that may be NAMESPACE/MACHINE, and returns the namespaces
// in which the machine may be.
func (p program) machineName(word string) (namespaces []string, machine string) {
	if namespace, machine, both := strings.Cut(word, "/"); both {
		return []string{namespace}, machine
	}
	return p.Namespace.Requested(), word
}

// machineNamed finds the services of a machine, which may be named as it is printed, NAMESPACE/MACHINE, or by
// its WorkloadEntry.
func (p program) machineNamed(ctx context.Context, word string) ([]registered, error) {
	namespaces, name := p.machineName(word)
	list, err := p.registered(ctx, namespaces, name, "")
	if err != nil || len(list) > 0 {
		return list, err
	}
	list, err = p.registered(ctx, namespaces, "", "")
	i := slices.IndexFunc(list, func(m registered) bool { return m.Entry == name || m.Machine+"."+m.Namespace == name })
	if i < 0 {
		return nil, err
	}
	of := list[i]
	return slices.DeleteFunc(list, func(m registered) bool { return m.Namespace != of.Namespace || m.Machine != of.Machine }), nil
}

// inNamespaces says which namespaces were searched, if not all.
func (p program) inNamespaces() string {
	if list := p.Namespace.Requested(); len(list) > 0 {
		return " in " + strings.Join(list, ", ")
	}
	return ""
}

func (p program) showMachine(m registered, another bool) error {
	w := output.NewRows(p.Out)
	if another {
		w.Row()
	}
	line := func(name, value string) {
		if value != "" {
			w.Row(name+":", value)
		}
	}
	line("Machine", m.Namespace+"/"+m.Machine)
	line("Group", m.Group)
	line("Entry", cmp.Or(m.Entry, "none"))
	line("Refused", m.Refused)
	line("State", m.State)
	if m.Gone != nil {
		line("Gone", words.ShortTime(m.Gone))
	}
	line("Health", m.Health)
	line("Detail", m.Detail)
	line("Address", m.Address)
	line("Network", m.Network)
	line("Locality", m.Locality)
	line("Labels", joinMap(m.Labels))
	line("Ports", joinMap(m.Ports))
	if m.Weight > 0 {
		line("Weight", fmt.Sprint(m.Weight))
	}
	line("Service account", m.ServiceAccount)
	line("Enrolment", m.Enrolment)
	line("Discovery", m.Discovery+", through "+m.Server)
	line("Connected since", words.ShortTime(m.Since))
	line("Registered", words.ShortTime(m.Registered))
	return w.Flush()
}

func (p program) removeMachineCommand() *cobra.Command {
	var group string
	var force bool
	cmd := &cobra.Command{
		Use:   "remove [NAMESPACE/]MACHINE...",
		Short: "Take out machines that are gone, before their grace period is over",
		Long: `Take out machines that are gone, before their grace period is over: their WorkloadEntries go at once.

One that is connected is refused: stop its agent, or revoke it. With --force it goes, and comes back if its discovery tells of it again.`,
		Example: `  mcp-client machines remove shop/cart-1
  mcp-client machines remove -n shop cart-2 --group cart --force`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, word := range args { // before any goes
				if namespaces, _ := p.machineName(word); len(namespaces) != 1 {
					return failure.Usage(cmd, errors.New("name one namespace by -n, or write NAMESPACE/MACHINE: a machine of the same id may be in another"))
				}
			}
			for _, word := range args {
				namespaces, machine := p.machineName(word)
				resp, err := session.Call(cmd.Context(), p.Session, adminv1.NewRegisteredMachineServiceClient, adminv1.RegisteredMachineServiceClient.RemoveRegisteredMachine,
					&adminv1.RemoveRegisteredMachineRequest{Namespace: namespaces[0], Machine: machine, Group: group, Force: force})
				if err != nil {
					return err
				}
				services := "one service"
				if n := resp.GetRemoved(); n > 1 {
					services = fmt.Sprintf("%d services", n)
				}
				if err := p.Printf("removed %s/%s, with %s\n", namespaces[0], machine, services); err != nil {
					return err
				}
			}
			return nil
		},
		ValidArgsFunction: p.completeRegistered,
	}
	cmd.Flags().StringVar(&group, "group", "", "only its service of one WorkloadGroup")
	cmd.Flags().BoolVar(&force, "force", false, "also if it is connected")
	return cmd
}

// completeRegistered completes the names of registered machines.
func (p program) completeRegistered(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if p.BeginCompletion(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveError
	}
	list, err := p.registered(cmd.Context(), p.Namespace.Requested(), "", "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveError
	}
	var names []cobra.Completion
	for _, m := range list {
		names = append(names, cobra.CompletionWithDesc(m.Machine, m.Group+" at "+m.Address))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// joinMap formats a map on one line, sorted by key.
func joinMap[V any](m map[string]V) string {
	parts := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s=%v", key, m[key]))
	}
	return strings.Join(parts, ", ")
}
