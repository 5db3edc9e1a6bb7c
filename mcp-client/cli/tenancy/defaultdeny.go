package tenancy

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/mcp-client/cli/change"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// DefaultDeny returns the command default-deny.
func DefaultDeny(s *session.Session) *cobra.Command {
	p := program{s}
	cmd := &cobra.Command{
		Use:   "default-deny",
		Short: "Tell whether nobody is let in but whom a policy allows, and switch that",
		Long: `Tell whether default deny is on: nobody is let in, to a workload or through a gateway, but whom some AuthorizationPolicy allows, and sidecars
take mutual TLS alone. Below that is who is let in all the same: policies that allow something to everybody, and those by which plaintext is taken.

It is made of two resources of the root namespace, an AuthorizationPolicy that allows nothing and a PeerAuthentication that is STRICT. It takes
the scope read, and switching it the scope write, for all namespaces.`,
		Example: `  mcp-client default-deny
  mcp-client default-deny on --dry-run
  mcp-client default-deny on --confirm-within 5m
  mcp-client default-deny off`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.defaultDeny(cmd.Context()) },
	}
	cmd.AddCommand(
		p.setDefaultDenyCommand(true, "Let nobody in but whom a policy allows", `Let nobody in but whom some AuthorizationPolicy allows, and have sidecars take mutual TLS alone, in the whole mesh and through its gateways.

Write the policies first that allow what there is to be. With --confirm-within it goes back by itself, unless you confirm it: do so the first time.`),
		p.setDefaultDenyCommand(false, "Let in again whom no policy keeps out", `Let in again whom no policy keeps out. What sidecars demand of mutual TLS stays as it is: change the PeerAuthentication for that.`),
	)
	return cmd
}

func (p program) setDefaultDenyCommand(enabled bool, short, long string) *cobra.Command {
	name := "off"
	if enabled {
		name = "on"
	}
	var w change.Options
	cmd := &cobra.Command{
		Use:     name,
		Short:   short,
		Long:    long,
		Example: fmt.Sprintf("  mcp-client default-deny %s --dry-run", name),
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			resp, err := session.Change(cmd.Context(), p.Session, adminv1.AdminServiceClient.SetDefaultDeny, &adminv1.SetDefaultDenyRequest{
				Enabled: enabled, Message: w.Message, DryRun: w.DryRun, Author: change.Author(), ConfirmWithin: w.Confirmation(),
			})
			if err != nil {
				return err
			}
			return change.PrintOutcomes(p.Printer, resp, w.DryRun)
		},
	}
	w.DeclareFlags(cmd)
	w.DeclareConfirm(cmd)
	return cmd
}

// defaultDeny is the printed form of the default deny setting.
type defaultDeny struct {
	Enabled            bool                   `json:"enabled"`
	Policy             string                 `json:"policy,omitempty"`
	MutualTLS          string                 `json:"mutualTLS"`
	PeerAuthentication string                 `json:"peerAuthentication,omitempty"`
	Exceptions         []defaultDenyException `json:"exceptions"`
}

type defaultDenyException struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Reason    string `json:"reason"`
}

func (p program) defaultDeny(ctx context.Context) error {
	resp, err := session.Ask(ctx, p.Session, adminv1.AdminServiceClient.GetDefaultDeny, &adminv1.GetDefaultDenyRequest{})
	if err != nil {
		return err
	}
	d := defaultDeny{
		Enabled: resp.GetEnabled(), Policy: namespaced(resp.GetPolicy()), MutualTLS: resp.GetMutualTls(),
		PeerAuthentication: namespaced(resp.GetPeerAuthentication()), Exceptions: []defaultDenyException{},
	}
	for _, e := range resp.GetExceptions() {
		r := e.GetResource()
		d.Exceptions = append(d.Exceptions, defaultDenyException{r.GetKind(), r.GetNamespace(), r.GetName(), e.GetReason()})
	}
	if p.Output.IsTree() {
		return p.PrintTree(d)
	}
	return p.Print(d.table())
}

func namespaced(r *adminv1.ResourceRef) string {
	if r == nil {
		return ""
	}
	return r.GetNamespace() + "/" + r.GetName()
}

func (d *defaultDeny) table() string {
	var b strings.Builder
	state := "off"
	if d.Enabled {
		state = "on" + by("AuthorizationPolicy", d.Policy)
	}
	fmt.Fprintf(&b, "default deny is %s\nmutual TLS is %s%s\n", state, d.MutualTLS, by("PeerAuthentication", d.PeerAuthentication))
	if len(d.Exceptions) == 0 {
		return b.String()
	}
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintf(w, "\nNAMESPACE\tKIND\tNAME\tLET IN ALL THE SAME\n")
	for _, e := range d.Exceptions {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", e.Namespace, e.Kind, e.Name, e.Reason)
	}
	w.Flush()
	return b.String()
}

func by(kind, name string) string {
	if name == "" {
		return ""
	}
	return ", by the " + kind + " " + name
}
