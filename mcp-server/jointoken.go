package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/identity"
	signing "github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mcp-server/identity/authority"
	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/identity/members"
	"github.com/pgmesh/pgmesh/store/identity/trust"
)

// joinToken has the flags for creating a server's join token.
type joinToken struct {
	program string
	roots   rootsOf
}

func (j *joinToken) flags(cmd *cobra.Command) {
	jointoken.ServerFlag(cmd.Flags(), &j.program)
	j.roots.flags(cmd)
}

func (j *joinToken) create(cmd *cobra.Command, database, name string, lifetime time.Duration) error {
	return j.roots.read(cmd, database, func(s *store.Store, roots []*x509.Certificate) error {
		token, err := authority.TokenForServer(cmd.Context(), members.New(s), roots, identity.Program(j.program), name, lifetime, "")
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "made the join token %s for a %s. It counts once, within %s; it is not kept and cannot be shown again:\n", name, j.program, lifetime)
		_, err = fmt.Fprintln(cmd.OutOrStdout(), token.Text())
		return err
	})
}

// rootsOf finds the roots of the mesh: in a file, or from the authority in the database, which is
// created if there is none.
type rootsOf struct {
	sealing seal.Options
	file    string
}

func (r *rootsOf) flags(cmd *cobra.Command) {
	r.sealing.Flags(cmd.Flags())
	cmd.Flags().StringVar(&r.file, "authority-roots", "", "PEM file with the roots of the mesh, if servers are run with --authority-cert")
}

func (r *rootsOf) read(cmd *cobra.Command, database string, do func(*store.Store, []*x509.Certificate) error) error {
	if r.file != "" {
		roots, err := rootsIn(r.file)
		if err != nil {
			return err
		}
		return withStore(cmd, database, func(s *store.Store) error { return do(s, roots) })
	}
	return withStore(cmd, database, func(s *store.Store) error {
		roots, err := r.inDatabase(cmd, s)
		if err != nil {
			return err
		}
		return do(s, roots)
	})
}

func rootsIn(file string) ([]*x509.Certificate, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--authority-roots: %w", err)
	}
	roots, err := signing.ParseCertificates(text)
	if err != nil {
		return nil, fmt.Errorf("--authority-roots %s: %w", file, err)
	}
	return roots, nil
}

// inDatabase reads the existing roots, for which no key is needed, or creates an authority.
func (r *rootsOf) inDatabase(cmd *cobra.Command, s *store.Store) ([]*x509.Certificate, error) {
	now, err := trust.New(s).Trust(cmd.Context())
	if err != nil {
		return nil, err
	}
	var roots []*x509.Certificate
	for _, each := range now.Roots {
		chain, err := signing.ParseCertificates(each.Chain)
		if err != nil {
			return nil, fmt.Errorf("authority %d: %w", each.ID, err)
		}
		roots = append(roots, chain[0])
	}
	if len(roots) > 0 {
		return roots, nil
	}
	keys, err := loadKeys(cmd, s, r.sealing)
	if errors.Is(err, seal.ErrNone) {
		return nil, fmt.Errorf("the mesh has no authority yet: it is made now, or at the first start of a server. %w", err)
	}
	if err != nil {
		return nil, err
	}
	return authority.Ensure(cmd.Context(), authority.Config{Trust: trust.New(s), Members: members.New(s), Keys: keys, Log: program.Log(cmd)})
}

const authorityHelp = `Show what the mesh trusts, from the database itself, and make an authority whose key is elsewhere.

mcp-client authority shows more, and changes it: from a server, by whoever has a token with the scope admin.`

func authorityCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "authority", Short: "Show what the mesh trusts, or make an authority whose key is elsewhere", Long: authorityHelp}
	var database string
	roots := rootsCommand(&database)
	needDatabase(roots, &database)
	cmd.AddCommand(roots, createAuthorityCommand())
	return cmd
}

func rootsCommand(database *string) *cobra.Command {
	var from rootsOf
	cmd := &cobra.Command{
		Use: "roots", Short: "Print the roots of the mesh as PEM, for mcp-client --tls-ca", Args: cobra.NoArgs,
		Long: `Print the roots of the mesh as PEM, for mcp-client --tls-ca and whoever else has to trust its servers. The mesh's authority is made if
there is none yet, which takes the keys that the servers have too.`,
		Example: `  mcp-server authority roots --database "$DATABASE" > mesh.pem`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return from.read(cmd, *database, func(_ *store.Store, roots []*x509.Certificate) error {
				_, err := fmt.Fprint(cmd.OutOrStdout(), strings.TrimSpace(string(signing.EncodeCertificates(roots...)))+"\n")
				return err
			})
		},
	}
	from.sealing.Flags(cmd.Flags())
	return cmd
}
