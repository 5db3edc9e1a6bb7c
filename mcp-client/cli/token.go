package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/internal/caller"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

func (p *Program) tokenCommand() *cobra.Command {
	return family(&cobra.Command{
		Use:   "token",
		Short: "Make bearer tokens, list them and take them back",
		Long: `Make bearer tokens, list them and take them back.

Programs and people that have no certificate show a token: --token-file, --token or PGMESH_TOKEN. What its bearer may do are
the scopes of the token:

  read                  see everything
  write:shop,cart       read and change what is in the namespaces shop and cart
  write:shop:vs,dr      of these kinds alone
  read:*:gateways       these kinds in all namespaces; "-" is the namespace of what belongs to none
  admin                 everything, these commands among it

They need the scope admin. The first token comes from mcp-server token create, on the database itself.`,
	}, p.createTokenCommand(), p.listTokensCommand(), p.revokeTokenCommand())
}

func (p *Program) createTokenCommand() *cobra.Command {
	req := &adminv1.CreateTokenRequest{}
	var lifetime time.Duration
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a token and print it, this once",
		Long: `Make a token and print it on standard output, this once: the server keeps a hash of it, from which it cannot be found.

Revisions name the token as their author.`,
		Example: `  mcp-client token create ci --scope write:shop --scope read > ci.token
  mcp-client token create on-call --scope admin --expires-in 12h`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := caller.ParseScopes(req.GetScopes()); err != nil {
				return &usageError{cmd, fmt.Errorf("--scope: %w", err)}
			}
			if lifetime < 0 {
				return &usageError{cmd, errors.New("--expires-in must not be negative")}
			}
			if req.Name = args[0]; lifetime > 0 {
				req.ExpiresAt = timestamppb.New(time.Now().Add(lifetime))
			}
			return p.createToken(cmd.Context(), req)
		},
	}
	cmd.Flags().StringArrayVar(&req.Scopes, "scope", nil, "what its bearer may do; may be given more than once")
	cmd.Flags().DurationVar(&lifetime, "expires-in", 90*24*time.Hour, "how long it is valid; 0 for ever")
	return cmd
}

// token is what is known of one, as it is printed.
type token struct {
	Name    string     `json:"name"`
	Secret  string     `json:"secret,omitempty"`
	Scopes  []string   `json:"scopes"`
	Created *time.Time `json:"createdAt,omitempty"`
	By      string     `json:"createdBy,omitempty"`
	Expires *time.Time `json:"expiresAt,omitempty"`
	Revoked *time.Time `json:"revokedAt,omitempty"`
	Revoker string     `json:"revokedBy,omitempty"`
	Used    *time.Time `json:"usedAt,omitempty"`
}

func tokenOf(t *adminv1.Token) token {
	return token{
		Name: t.GetName(), Scopes: t.GetScopes(), Created: instant(t.GetCreatedAt()), By: t.GetCreatedBy(), Expires: instant(t.GetExpiresAt()),
		Revoked: instant(t.GetRevokedAt()), Revoker: t.GetRevokedBy(), Used: instant(t.GetUsedAt()),
	}
}

func (p *Program) createToken(ctx context.Context, req *adminv1.CreateTokenRequest) error {
	resp, err := callTokens(ctx, p, adminv1.TokenServiceClient.CreateToken, req)
	if err != nil {
		return err
	}
	made := tokenOf(resp.GetToken())
	if made.Secret = resp.GetSecret(); p.output.isTree() {
		return p.printTree(made)
	}
	until := "for ever"
	if made.Expires != nil {
		until = "until " + made.Expires.Format(time.RFC3339)
	}
	fmt.Fprintf(p.Err, "made the token %s (%s), valid %s. It is not kept and cannot be shown again:\n", made.Name, strings.Join(made.Scopes, ", "), until)
	return p.write([]byte(made.Secret+"\n"), nil)
}

func (p *Program) listTokensCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the tokens, also those that are no longer in force",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			resp, err := callTokens(cmd.Context(), p, adminv1.TokenServiceClient.ListTokens, &adminv1.ListTokensRequest{})
			if err != nil {
				return err
			}
			list := []token{}
			for _, t := range resp.GetTokens() {
				list = append(list, tokenOf(t))
			}
			return p.printTokens(list)
		},
	}
}

func (p *Program) printTokens(list []token) error {
	out := listing{tree: list, columns: []string{"NAME", "STATE", "SCOPES", "EXPIRES", "LAST USED"}, wide: []string{"CREATED", "BY", "REVOKED BY"}}
	for _, t := range list {
		out.add(t.Name, t.Name, t.state(), strings.Join(t.Scopes, " "), shortly(t.Expires), shortly(t.Used), shortly(t.Created), t.By, orDash(t.Revoker))
	}
	return p.printListing(out)
}

func (t token) state() string {
	switch {
	case t.Revoked != nil:
		return "revoked"
	case t.Expires != nil && !time.Now().Before(*t.Expires):
		return "expired"
	}
	return "in force"
}

func shortly(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04Z")
}

func (p *Program) revokeTokenCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME...",
		Short: "Take tokens back",
		Long: `Take tokens back. Within seconds no server lets anybody in with them any more, and streams that they opened are ended.

A token that is taken back stays in the list, and its name is free for another one.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				if _, err := callTokens(cmd.Context(), p, adminv1.TokenServiceClient.RevokeToken, &adminv1.RevokeTokenRequest{Name: name}); err != nil {
					return err
				}
				if err := p.write([]byte("revoked "+name+"\n"), nil); err != nil {
					return err
				}
			}
			return nil
		},
		ValidArgsFunction: p.completeTokens,
	}
}

// completeTokens offers the tokens that are in force.
func (p *Program) completeTokens(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if p.settle(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveError
	}
	resp, err := callTokens(cmd.Context(), p, adminv1.TokenServiceClient.ListTokens, &adminv1.ListTokensRequest{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveError
	}
	var names []cobra.Completion
	for _, t := range resp.GetTokens() {
		if tokenOf(t).state() == "in force" {
			names = append(names, t.GetName())
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
