package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/mcp-server/identity/authority"
	"github.com/pgmesh/pgmesh/store"
	storefeed "github.com/pgmesh/pgmesh/store/feed"
	"github.com/pgmesh/pgmesh/store/identity/members"
	"github.com/pgmesh/pgmesh/store/identity/trust"
)

// ownAuthority reports whether the server uses the mesh's own authority for its certificate and
// those of its callers, as it does by default.
func (o *Options) ownAuthority() bool {
	return o.Database != "" && !o.Plaintext.Allowed && !o.Security.TLS.Given()
}

// ownCertificate reports whether the server has a certificate of the mesh: from its own authority
// or, for a relay, by joining.
func (o *Options) ownCertificate() bool {
	return o.ownAuthority() || (o.Upstream.JoinTokenFile != "" && !o.Plaintext.Allowed && !o.Security.TLS.Given())
}

// mesh knows the members of the mesh, and this server's own membership.
type mesh interface {
	// TLS returns the configuration of a listener that uses the server's certificate of the mesh.
	TLS(protocols ...string) *tls.Config
	// Member is for caller.Config.
	Member(id spiffeid.ID, chains [][]*x509.Certificate) ([]caller.Scope, error)
	// Server reports whether the caller is a server of the mesh.
	Server(ctx context.Context) bool
}

// checkAuthority checks that everything is there for an authority; its errors say how to get it.
func (o *Options) checkAuthority() error {
	switch {
	case o.Authority.Given() && o.Database == "":
		return errors.New("--authority-cert, --authority-key and --authority-roots are for a server with a database: a relay joins the mesh by --upstream-join-token-file")
	case o.Authority.Given() && !o.ownAuthority() && !o.Authority.OnlyRoots():
		return errors.New("--authority-cert and --authority-key are for a server that shows a certificate of that authority: leave out --insecure and --tls-cert")
	case o.Authority.OnlyRoots() && o.ownAuthority():
		return errors.New("--authority-roots: there is nothing to sign with: give --authority-cert and --authority-key too; or --tls-cert, --tls-key and --client-ca if others sign")
	case o.ownAuthority() && !o.Authority.Given() && !o.Sealing.Given():
		return errors.New("this server is to be the authority of the mesh, and has no key to encrypt that with: make one, " +
			"(umask 077; mcp-server secrets key > secrets.key), and give --secrets-key-file secrets.key to all servers of the mesh; or give " +
			"--secrets-passphrase-file or --secrets-kms-command. " +
			"To use certificates of your own give --tls-cert and --tls-key; or add --insecure to serve without TLS, on loopback. An authority of your own is given by --authority-cert and --authority-key")
	}
	if o.Name == "" {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("--name: the host does not tell its name: %w", err)
		}
		o.Name = name
	}
	if _, err := (identity.Server{TrustDomain: "mesh", Program: identity.MCPServer, Name: o.Name}).ID(); err != nil {
		return fmt.Errorf("--name %s: it cannot be a part of an identity; give one of letters, digits, \"-\", \".\" and \"_\": %w", o.Name, err)
	}
	if len(o.Hosts) == 0 {
		o.Hosts = []string{o.Name, "localhost", "127.0.0.1", "::1"}
		if host, err := os.Hostname(); err == nil {
			o.Hosts[0] = host
		}
	}
	return nil
}

func (s *server) newAuthority(from *store.Store, revisions *storefeed.Feed) (*authority.Authority, error) {
	o := s.options
	return authority.New(authority.Config{
		Trust: trust.New(from), Members: members.New(from), Connected: func() bool { return revisions.Status().Connected }, Keys: s.keys, Files: o.Authority, Signs: o.ownAuthority(), Name: o.Name, Hosts: o.Hosts, StateDir: o.StateDir, Places: revisions.Places(),
		StaleAfter: o.Patience.trustStaleAfter(), Changed: func() { s.door.guard.Recheck() },
		Metrics: s.metrics, Log: o.Log,
	})
}

// recallAuthority restores the authority's saved state.
func (d *database) recallAuthority(ctx context.Context, why string) {
	found, err := d.authority.Recall(ctx)
	switch {
	case err != nil:
		d.options.Log.Error("what was saved of the authority cannot be used: until the database is there, this server has no certificate to show",
			"folder", d.options.StateDir, "file", authority.File, "error", err)
	case found:
		d.options.Log.Warn(why + ": going by what was saved of the authority")
	}
}
