package tenancy

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// Hosts returns the command hosts.
func Hosts(s *session.Session) *cobra.Command {
	p := program{s}
	return arguments.Listing(&cobra.Command{
		Use:   "hosts",
		Short: "Say which namespaces own which hosts and addresses",
		Long: `Say which namespaces own which hosts and addresses. A namespace claims a host for others by a ServiceEntry, VirtualService, DestinationRule or
Gateway, and could so take requests that are another's. Of what has an owner nobody else claims anything for others, and as soon as anything has, gateways serve
the Gateways of their own namespace alone.`,
	}, p.listHostsCommand(), p.grantHostsCommand(), p.reserveHostsCommand(), p.revokeHostsCommand(), p.hostOwnerCommand())
}

// hostGrant is the printed form of the owner of some hosts.
type hostGrant struct {
	Pattern   string     `json:"pattern"`
	Namespace string     `json:"namespace"` // empty if reserved for nobody
	By        string     `json:"grantedBy"`
	At        *time.Time `json:"grantedAt"`
}

func (p program) listHostsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list [NAMESPACE...]",
		Short: "List who owns which hosts and addresses",
		Long:  `List who owns which hosts and addresses: the namespaces that are named, or that of -n, or else all that you may read.`,
		Example: `  mcp-client hosts list
  mcp-client hosts list shop`,
		RunE: func(cmd *cobra.Command, args []string) error { return p.listHosts(cmd.Context(), args) },
	}
}

func (p program) listHosts(ctx context.Context, namespaces []string) error {
	if len(namespaces) == 0 {
		namespaces = p.Namespace.Requested()
	}
	resp, err := session.Call(ctx, p.Session, adminv1.NewTenancyServiceClient, adminv1.TenancyServiceClient.ListHostGrants, &adminv1.ListHostGrantsRequest{Namespaces: namespaces})
	if err != nil {
		return err
	}
	list := []hostGrant{}
	for _, g := range resp.GetGrants() {
		list = append(list, hostGrant{g.GetPattern(), g.GetNamespace(), g.GetGrantedBy(), output.TimeOf(g.GetGrantedAt())})
	}
	out := output.Listing{Tree: list, Columns: []string{"HOSTS", "NAMESPACE"}, Wide: []string{"GRANTED BY", "GRANTED"}}
	for _, g := range list {
		out.Add(g.Pattern, g.Pattern, words.OrDash(g.Namespace), words.Escaped(g.By), words.ShortTime(g.At))
	}
	return p.PrintListing(out)
}

const patternsHelp = `A pattern is a host, *.shop.example for all below it, an address or a range of them (10.1.0.0/16), or *; of several that fit, the narrowest counts.`

func (p program) grantHostsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "grant NAMESPACE PATTERN...",
		Short: "Make a namespace the owner of hosts",
		Long: `Make a namespace the owner of hosts, which it alone may claim for others from then on. ` + patternsHelp + `

What others claim already stays, and is told as foreign-host by problems. It takes the scope admin.`,
		Example: `  mcp-client hosts grant shop shop.example '*.shop.example'
  mcp-client hosts grant shop 10.1.0.0/16`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return p.grantHosts(cmd.Context(), args[0], args[1:]) },
	}
}

func (p program) reserveHostsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reserve PATTERN...",
		Short: "Have hosts be nobody's",
		Long: `Have hosts be nobody's: not even for its own namespace does somebody claim them who may not write everywhere. Reserve the names by which machines
reach the control plane. ` + patternsHelp + ` It takes the scope admin.`,
		Example: `  mcp-client hosts reserve discovery.example`,
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return p.grantHosts(cmd.Context(), "", args) },
	}
}

func (p program) grantHosts(ctx context.Context, namespace string, patterns []string) error {
	resp, err := session.Call(ctx, p.Session, adminv1.NewTenancyServiceClient, adminv1.TenancyServiceClient.GrantHosts, &adminv1.GrantHostsRequest{Namespace: namespace, Patterns: patterns})
	if err != nil {
		return err
	}
	owner := "nobody owns "
	if namespace != "" {
		owner = namespace + " owns "
	}
	if n := resp.GetForeign(); n > 0 {
		fmt.Fprintf(p.Err, "%d resources claim what others own; they stay until somebody deletes them: mcp-client problems -A lists them as foreign-host\n", n)
	}
	return p.Print(owner + strings.Join(patterns, ", ") + "\n")
}

func (p program) revokeHostsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "revoke PATTERN...",
		Short:   "Take hosts from their owners",
		Long:    `Take hosts from their owners, or from being nobody's, by the patterns that were granted: all of them, or none if one was not. It takes the scope admin.`,
		Example: `  mcp-client hosts revoke '*.reviews.example'`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := session.Call(cmd.Context(), p.Session, adminv1.NewTenancyServiceClient, adminv1.TenancyServiceClient.RevokeHosts, &adminv1.RevokeHostsRequest{Patterns: args})
			if err != nil {
				return err
			}
			return p.Print("revoked " + strings.Join(args, ", ") + "\n")
		},
	}
}

func (p program) hostOwnerCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "owner HOST",
		Short:   "Tell who may claim a host, or an address, for others",
		Long:    `Tell who may claim a host, or an address, for others: a namespace, nobody, or everybody.`,
		Example: `  mcp-client hosts owner www.shop.example`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			resp, err := session.Call(cmd.Context(), p.Session, adminv1.NewTenancyServiceClient, adminv1.TenancyServiceClient.GetHostOwner, &adminv1.GetHostOwnerRequest{Host: args[0]})
			if err != nil {
				return err
			}
			owner := "everybody may claim " + args[0]
			switch {
			case resp.GetNamespace() != "":
				owner = resp.GetNamespace() + " owns " + args[0]
			case resp.GetOwned():
				owner = "nobody may claim " + args[0]
			}
			return p.Print(owner + "\n")
		},
	}
}
