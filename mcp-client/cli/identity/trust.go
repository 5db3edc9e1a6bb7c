package identity

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// Trust returns the command trust.
func Trust(s *session.Session) *cobra.Command {
	p := program{s}
	return arguments.Listing(&cobra.Command{
		Use:   "trust",
		Short: "Trust other meshes",
		Long: `Trust other meshes. Their members are known here by their own trust domain, and by that alone: the authorities of one mesh vouch for nobody
of another, nor of this one. What they may do, policies say.

To trust and to end it takes the scope admin.`,
	}, p.listTrustCommand(), p.addTrustCommand(), p.removeTrustCommand())
}

func (p program) addTrustCommand() *cobra.Command {
	var roots string
	cmd := &cobra.Command{
		Use:   "add TRUST-DOMAIN --roots FILE",
		Short: "Trust another mesh, or replace its roots",
		Long: `Trust another mesh, in the place of what was trusted of it before. The file has the certificates of its authorities as PEM; while that mesh
replaces its authority, the old and the new.`,
		Example: `  mcp-client trust add partner.example --roots partner.pem`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if roots == "" {
				return failure.Usage(cmd, errors.New("name the file with the roots of the mesh: --roots"))
			}
			content, err := os.ReadFile(roots)
			if err != nil {
				return err
			}
			_, err = session.Call(cmd.Context(), p.Session, adminv1.NewTrustAdminServiceClient, adminv1.TrustAdminServiceClient.PutFederatedTrust,
				&adminv1.PutFederatedTrustRequest{TrustDomain: args[0], Roots: string(content)})
			if err != nil {
				return err
			}
			return p.Print("trusting " + args[0] + "\n")
		},
	}
	cmd.Flags().StringVar(&roots, "roots", "", "file with the certificates of its authorities, as PEM")
	return cmd
}

// federated is the printed form of another mesh.
type federated struct {
	TrustDomain string     `json:"trustDomain"`
	NotAfter    *time.Time `json:"notAfter,omitempty"`
	Author      string     `json:"author,omitempty"`
	Updated     *time.Time `json:"updatedAt,omitempty"`
	Roots       string     `json:"roots"`
}

func (p program) listTrustCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the other meshes that are trusted",
		Example: `  mcp-client trust list`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := p.federatedMeshes(cmd.Context())
			if err != nil {
				return err
			}
			out := output.Listing{Tree: list, Columns: []string{"TRUST DOMAIN", "EXPIRES", "AUTHOR", "UPDATED"}}
			for _, f := range list {
				out.Add(f.TrustDomain, f.TrustDomain, words.ShortTime(f.NotAfter), f.Author, words.ShortTime(f.Updated))
			}
			return p.PrintListing(out)
		},
	}
}

func (p program) federatedMeshes(ctx context.Context) ([]federated, error) {
	resp, err := session.Call(ctx, p.Session, adminv1.NewTrustAdminServiceClient, adminv1.TrustAdminServiceClient.ListFederatedTrust, &adminv1.ListFederatedTrustRequest{})
	if err != nil {
		return nil, err
	}
	list := []federated{}
	for _, f := range resp.GetFederated() {
		list = append(list, federated{f.GetTrustDomain(), output.TimeOf(f.GetNotAfter()), f.GetAuthor(), output.TimeOf(f.GetUpdatedAt()), f.GetRoots()})
	}
	return list, nil
}

func (p program) removeTrustCommand() *cobra.Command {
	return p.removal(&cobra.Command{
		Use:   "remove TRUST-DOMAIN...",
		Short: "Trust other meshes no more",
		Example: `  mcp-client trust add partner.example --roots partner.pem
  mcp-client trust remove partner.example`,
	}, "trusting %s no more\n", func(ctx context.Context, domain string) error {
		_, err := session.Call(ctx, p.Session, adminv1.NewTrustAdminServiceClient, adminv1.TrustAdminServiceClient.RemoveFederatedTrust, &adminv1.RemoveFederatedTrustRequest{TrustDomain: domain})
		return err
	}, func(ctx context.Context) (names []string, err error) {
		list, err := p.federatedMeshes(ctx)
		for _, f := range list {
			names = append(names, f.TrustDomain)
		}
		return names, err
	})
}

// removal makes a command that removes the named things, prints said for each, and completes their
// names.
func (p program) removal(cmd *cobra.Command, said string, remove func(ctx context.Context, name string) error, list func(context.Context) ([]string, error)) *cobra.Command {
	cmd.Args = cobra.MinimumNArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, name := range args {
			err := remove(cmd.Context(), name)
			if err == nil {
				err = p.Printf(said, name)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return p.completeNames(cmd, list)
	}
	return cmd
}

// completeNames completes names that the server lists.
func (p program) completeNames(cmd *cobra.Command, list func(context.Context) ([]string, error)) ([]cobra.Completion, cobra.ShellCompDirective) {
	if p.BeginCompletion(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveError
	}
	names, err := list(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
