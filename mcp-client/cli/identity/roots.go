package identity

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

func (p program) authorityRootsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "roots",
		Short: "Print the certificates of all authorities that are trusted now",
		Long: `Print the certificates of all authorities that are trusted now, as PEM, for those who are no members of the mesh and so are not told of another:
people and programs (--tls-ca), and machines that are to join with a JSON web token (mesh-agent join --roots).

Write them to another file than the one of --tls-ca, and replace that with it: the shell would empty it before it is read. Who is not
trusted by the server's present authority asks the database: mcp-server authority roots.`,
		Example: `  mcp-client authority roots > roots.pem`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			resp, err := p.authorities(cmd.Context())
			if err != nil {
				return err
			}
			if resp.GetRoots() == "" {
				return errors.New(noAuthority(resp.GetTrustDomain()))
			}
			return p.Print(resp.GetRoots())
		},
	}
}

func (p program) authorities(ctx context.Context) (*adminv1.ListAuthoritiesResponse, error) {
	return session.Call(ctx, p.Session, adminv1.NewTrustAdminServiceClient, adminv1.TrustAdminServiceClient.ListAuthorities, &adminv1.ListAuthoritiesRequest{})
}

// newRoots is the command that recreates files with the mesh's roots.
const newRoots = "mcp-client authority roots > roots.pem"

// printFilesToUpdate says which files must be updated by hand before an authority signs.
func (p program) printFilesToUpdate(ctx context.Context, id int64) error {
	fmt.Fprintf(p.Err, "Before it signs, the files by which people and programs trust the mesh (--tls-ca, and mesh-agent join --roots) need it too: %s\n", newRoots)
	lacks, err := p.lacksRoot(ctx, id)
	if err != nil {
		return err
	}
	if lacks {
		fmt.Fprintf(p.Err, "%s, by which this command knows the server, does not have it yet: %s && mv roots.pem %[1]s\n", p.Server.Dial.TLS.CA, newRoots)
	}
	return nil
}

// lacksRoot reports whether the CA file of this command has roots of the mesh, but not that of the
// authority.
func (p program) lacksRoot(ctx context.Context, id int64) (bool, error) {
	if p.Server.Dial.TLS.CA == "" {
		return false, nil
	}
	content, err := os.ReadFile(p.Server.Dial.TLS.CA)
	if err != nil {
		return false, err
	}
	known, err := authority.ParseCertificates(content)
	if err != nil {
		return false, fmt.Errorf("%s: %w", p.Server.Dial.TLS.CA, err)
	}
	resp, err := p.authorities(ctx)
	if err != nil {
		return false, err
	}
	ofMesh, hasIt := false, true
	for _, a := range resp.GetAuthorities() {
		chain, err := authority.ParseCertificates([]byte(a.GetCertificate()))
		if err != nil {
			return false, fmt.Errorf("authority %d: %w", a.GetId(), err)
		}
		has := slices.ContainsFunc(known, func(c *x509.Certificate) bool { return c.Equal(chain[0]) })
		ofMesh = ofMesh || has
		if a.GetId() == id {
			hasIt = has
		}
	}
	return ofMesh && !hasIt, nil
}
