package identity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// callTokens makes a call of the token API.
func callTokens[Req, Resp any](ctx context.Context, p program, m connect.Method[adminv1.TokenServiceClient, Req, Resp], req *Req) (*Resp, error) {
	return connect.Call(ctx, &p.Server, adminv1.NewTokenServiceClient, m, req, func(err error) error {
		if status.Code(err) == codes.AlreadyExists {
			return errors.New(status.Convert(err).Message())
		}
		return p.Server.Explain(err)
	})
}

// Token returns the command token.
func Token(s *session.Session) *cobra.Command {
	p := program{s}
	return arguments.Listing(&cobra.Command{
		Use:   "token",
		Short: "Make tokens, list them and take them back",
		Long: `Make tokens, list them and take them back. There are two sorts.

By a join token a machine becomes a member of the mesh, once: mesh-agent join shows it to discovery, which gives the machine the certificate
of its service account. Who makes join tokens for a namespace needs the scope write of it.

Programs and people that have no certificate show a bearer token: --token-file, --token or PGMESH_TOKEN. What its bearer may do are
the scopes of the token:

  read                  see everything
  write:shop,cart       read and change what is in the namespaces shop and cart
  write:shop:vs,dr      of these kinds alone
  read:*:gateways       these kinds in all namespaces; "-" is the namespace of what belongs to none
  admin                 everything, these commands among it

Who makes bearer tokens needs the scope admin. The first comes from mcp-server token create, on the database itself.`,
	}, p.listTokensCommand(), p.createTokenCommand(), p.revokeTokenCommand())
}

func (p program) createTokenCommand() *cobra.Command {
	var bearer caller.NewToken
	var join joiner
	cmd := &cobra.Command{
		Use:   "create NAME (--scope SCOPE... | --identity NAMESPACE/SERVICE-ACCOUNT | --group NAMESPACE/WORKLOADGROUP | --for SERVER)",
		Short: "Make a token and print it, this once",
		Long: `Make a token and print it on standard output, this once: the server keeps a hash of it, from which it cannot be found.

With --scope it is a bearer token, valid for 90 days. Revisions name it as their author.

With --identity, --group or --for it is a join token, which one machine may use within an hour, unless --uses and --expires-in say
otherwise. It needs no NAME. Below it stands the command that the machine is to run, which asks for it. Whoever has it until then can
become that machine: hand it on as you would a password. With it go the fingerprints of the mesh's roots, so a machine tells it to nobody
but a discovery of this mesh. That is where --discovery says: HOST, or HOST:PORT if machines join at another port than 15012.`,
		Example: `  mcp-client token create ci --scope write:shop --scope read > ci.token
  mcp-client token create on-call --scope admin --expires-in 12h
  mcp-client token create --identity shop/cart --discovery eu.mesh.example > cart.token
  mcp-client token create fleet --group shop/cart --uses 20 --expires-in 7d`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if join.wanted() {
				return p.makeJoinToken(cmd, &join, bearer, args)
			}
			if err := cobra.ExactArgs(1)(cmd, args); err != nil {
				return failure.Usage(cmd, err)
			}
			if _, err := caller.ParseScopes(bearer.Scopes); err != nil {
				return failure.Usage(cmd, fmt.Errorf("--scope: %w", err))
			}
			if bearer.Lifetime < 0 {
				return failure.Usage(cmd, errors.New("--expires-in must not be negative"))
			}
			req := &adminv1.CreateTokenRequest{Name: args[0], Scopes: bearer.Scopes}
			if bearer.Lifetime > 0 {
				req.ExpiresAt = timestamppb.New(time.Now().Add(bearer.Lifetime))
			}
			return p.createToken(cmd.Context(), req)
		},
	}
	bearer.Flags(cmd.Flags())
	join.declareFlags(cmd)
	return cmd
}

// makeJoinToken makes a join token from the command's flags.
func (p program) makeJoinToken(cmd *cobra.Command, join *joiner, token caller.NewToken, args []string) error {
	req, err := join.request()
	switch {
	case err != nil:
		return failure.Usage(cmd, err)
	case len(token.Scopes) > 0:
		return failure.Usage(cmd, errors.New("--scope is for bearer tokens; leave it out"))
	case !cmd.Flags().Changed("expires-in"):
		token.Lifetime = jointoken.DefaultLifetime
	case token.Lifetime <= 0:
		return failure.Usage(cmd, errors.New("--expires-in must be above 0: a join token has to expire"))
	}
	if len(args) > 0 {
		req.Name = args[0]
	}
	return p.createJoinToken(cmd.Context(), req, token.Lifetime)
}

// token is the printed form of a bearer token.
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
		Name: t.GetName(), Scopes: t.GetScopes(), Created: output.TimeOf(t.GetCreatedAt()), By: t.GetCreatedBy(), Expires: output.TimeOf(t.GetExpiresAt()),
		Revoked: output.TimeOf(t.GetRevokedAt()), Revoker: t.GetRevokedBy(), Used: output.TimeOf(t.GetUsedAt()),
	}
}

func (p program) createToken(ctx context.Context, req *adminv1.CreateTokenRequest) error {
	resp, err := callTokens(ctx, p, adminv1.TokenServiceClient.CreateToken, req)
	if err != nil {
		return err
	}
	made := tokenOf(resp.GetToken())
	if made.Secret = resp.GetSecret(); p.Output.IsTree() {
		return p.PrintTree(made)
	}
	until := "for ever"
	if made.Expires != nil {
		until = "until " + made.Expires.Format(time.RFC3339)
	}
	fmt.Fprintf(p.Err, "made the token %s (%s), valid %s. It is not kept and cannot be shown again:\n", made.Name, strings.Join(made.Scopes, ", "), until)
	return p.Print(made.Secret + "\n")
}

func (p program) listTokensCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the tokens, also those that are no longer in force",
		Long: `List the tokens, also those that are no longer in force: bearer tokens, for administrators, and after them the join tokens that you may
see.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.listTokens(cmd.Context()) },
	}
}

func (p program) listTokens(ctx context.Context) error {
	list, err := p.bearerTokens(ctx)
	var denied *failure.Denied
	if err != nil && !errors.As(err, &denied) {
		return err
	}
	joins, failed := p.joinTokens(ctx)
	var old *failure.NotOffered
	switch {
	case failed != nil && !errors.As(failed, &old) && !errors.As(failed, &denied):
		return failed
	case err != nil && len(joins) == 0:
		return err
	case p.Output.IsTree():
		all := []any{}
		for _, t := range list {
			all = append(all, t)
		}
		for _, t := range joins {
			all = append(all, t)
		}
		return p.PrintTree(all)
	}
	if err == nil {
		if err := p.printTokens(list); err != nil {
			return err
		}
	}
	if len(joins) == 0 {
		return nil
	}
	if err == nil && p.Output.Format != output.Name {
		fmt.Fprintln(p.Out)
	}
	return p.printJoinTokens(joins)
}

func (p program) bearerTokens(ctx context.Context) ([]token, error) {
	resp, err := callTokens(ctx, p, adminv1.TokenServiceClient.ListTokens, &adminv1.ListTokensRequest{})
	if err != nil {
		return nil, err
	}
	list := []token{}
	for _, t := range resp.GetTokens() {
		list = append(list, tokenOf(t))
	}
	return list, nil
}

func (p program) printTokens(list []token) error {
	out := output.Listing{Tree: list, Columns: []string{"NAME", "STATE", "SCOPES", "EXPIRES", "LAST USED"}, Wide: []string{"CREATED", "BY", "REVOKED BY"}}
	for _, t := range list {
		out.Add(t.Name, t.Name, t.state(), strings.Join(t.Scopes, " "), words.ShortTime(t.Expires), words.ShortTime(t.Used), words.ShortTime(t.Created), t.By, words.OrDash(t.Revoker))
	}
	return p.PrintListing(out)
}

func (t token) state() string {
	switch {
	case t.Revoked != nil:
		return "revoked"
	case t.Expires != nil && !time.Now().Before(*t.Expires):
		return "expired"
	}
	return inForce
}

// inForce is the state of a valid bearer token.
const inForce = "in force"

func (p program) revokeTokenCommand() *cobra.Command {
	var join bool
	cmd := &cobra.Command{
		Use:   "revoke NAME...",
		Short: "Take tokens back",
		Long: `Take tokens back. Within seconds no server lets anybody in with them any more, and streams that bearer tokens opened are ended. Machines
that have joined with a join token stay: mcp-client identity revoke is for those.

--join says that join tokens are meant, where there are bearer tokens of the same name.

A token that is taken back stays in the list, and its name is free for another one.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				if err := p.revokeToken(cmd.Context(), name, join); err != nil {
					return err
				}
				if err := p.Print("revoked " + name + "\n"); err != nil {
					return err
				}
			}
			return nil
		},
		ValidArgsFunction: p.completeTokens,
	}
	cmd.Flags().BoolVar(&join, "join", false, "the names are those of join tokens")
	return cmd
}

// revokeToken revokes a token by name, whatever its sort.
func (p program) revokeToken(ctx context.Context, name string, join bool) error {
	joins, err := p.joinTokens(ctx)
	var absent *failure.NotOffered
	var denied *failure.Denied
	if err != nil && (join || !errors.As(err, &absent) && !errors.As(err, &denied)) {
		return err
	}
	isJoin := slices.ContainsFunc(joins, func(t joinToken) bool { return t.Name == name && t.State == "valid" })
	if !join && isJoin {
		bearers, err := p.bearerTokens(ctx) // only administrators can list and revoke these
		if slices.ContainsFunc(bearers, func(t token) bool { return t.Name == name && t.state() == inForce }) {
			return fmt.Errorf("there are a bearer token and a join token %q: revoke the join token first, with --join", name)
		}
		if err != nil && !errors.As(err, &denied) {
			return err
		}
	}
	if join || isJoin {
		_, err = session.Call(ctx, p.Session, adminv1.NewJoinTokenServiceClient, adminv1.JoinTokenServiceClient.RevokeJoinToken, &adminv1.RevokeJoinTokenRequest{Name: name})
		return err
	}
	_, err = callTokens(ctx, p, adminv1.TokenServiceClient.RevokeToken, &adminv1.RevokeTokenRequest{Name: name})
	return err
}

// completeTokens completes valid tokens.
func (p program) completeTokens(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if p.ApplySettings(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveError
	}
	bearers, err := p.bearerTokens(cmd.Context())
	joins, failed := p.joinTokens(cmd.Context())
	if err != nil && failed != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveError
	}
	var names []cobra.Completion
	for _, t := range bearers {
		if t.state() == inForce {
			names = append(names, t.Name)
		}
	}
	for _, t := range joins {
		if t.State == "valid" {
			names = append(names, t.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
