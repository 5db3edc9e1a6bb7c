package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/mcp-server/identity/tokens"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/identity/callers"
)

const callersHelp = `Make bearer tokens, and join tokens of servers, list them and take them back, in the database itself.

This is how the first token comes to be, with the rights of the database role. Whoever has a token with the scope admin can
do the same from elsewhere: mcp-client token.`

func tokenCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "token", Short: "Make bearer tokens, list them and take them back", Long: callersHelp}
	var database string
	for _, c := range []*cobra.Command{createTokenCommand(&database), listTokensCommand(&database), revokeTokenCommand(&database)} {
		needDatabase(c, &database)
		cmd.AddCommand(c)
	}
	return cmd
}

// withStore opens the store, runs a function, and closes the store.
func withStore(cmd *cobra.Command, database string, do func(*store.Store) error) error {
	s, err := store.Open(cmd.Context(), database, store.Options{Application: "mcp-server token"})
	if err != nil {
		return err
	}
	defer s.Close()
	return do(s)
}

func createTokenCommand(database *string) *cobra.Command {
	var token caller.NewToken
	var join joinToken
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a token and print it, this once",
		Long: `Make a token and print it, this once.

With --scope it is a bearer token, which people and programs show with each call. With --for it is a join token, by which a server of that
sort becomes a member of the mesh: it counts once, and for an hour unless --expires-in says otherwise. The mesh's authority is made if
there is none yet, which takes the keys that the servers have too.`,
		Example: `  mcp-server token create admin --scope admin --database "$DATABASE" > admin.token
  mcp-server token create ci --scope write:shop --scope read --expires-in 2160h --database "$DATABASE"
  mcp-server token create eu-1 --for discovery --database "$DATABASE" --secrets-key-file secrets.key > eu-1.token`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case token.Lifetime < 0:
				return errors.New("--expires-in must not be negative")
			case join.program != "" && len(token.Scopes) > 0:
				return errors.New("--scope is for bearer tokens and --for for join tokens: give one of them")
			case join.program != "":
				if !cmd.Flags().Changed("expires-in") {
					token.Lifetime = jointoken.DefaultLifetime
				}
				return join.create(cmd, *database, args[0], token.Lifetime)
			}
			return withStore(cmd, *database, func(s *store.Store) error {
				var expires time.Time
				if token.Lifetime > 0 {
					expires = time.Now().Add(token.Lifetime)
				}
				secret, made, err := tokens.Create(cmd.Context(), callers.New(s), args[0], token.Scopes, expires, "")
				if err != nil {
					return err
				}
				fmt.Fprintf(os.Stderr, "made the token %s (%s). It is not kept and cannot be shown again:\n", made.Name, strings.Join(made.Scopes, ", "))
				_, err = fmt.Fprintln(cmd.OutOrStdout(), secret)
				return err
			})
		},
	}
	token.Flags(cmd.Flags())
	join.flags(cmd)
	return cmd
}

func listTokensCommand(database *string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the tokens, also those that are no longer in force", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withStore(cmd, *database, func(s *store.Store) error {
				list, err := callers.New(s).Tokens(cmd.Context())
				if err != nil {
					return err
				}
				w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 3, ' ', 0)
				fmt.Fprintln(w, "NAME\tSCOPES\tCREATED\tBY\tEXPIRES\tREVOKED\tUSED")
				for _, t := range list {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", terminal.Line(t.Name), strings.Join(t.Scopes, " "), when(t.Created), terminal.Line(t.By), when(t.Expires), when(t.Revoked), when(t.Used))
				}
				return w.Flush()
			})
		},
	}
}

func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

func revokeTokenCommand(database *string) *cobra.Command {
	return &cobra.Command{
		Use: "revoke NAME", Short: "Take a token back", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withStore(cmd, *database, func(s *store.Store) error {
				revoked, err := callers.New(s).RevokeToken(cmd.Context(), args[0], "")
				if err == nil && !revoked {
					err = fmt.Errorf("there is no token %q in force: mcp-server token list lists them", args[0])
				}
				return err
			})
		},
	}
}
