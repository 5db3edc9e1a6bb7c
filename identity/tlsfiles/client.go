package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/internal/kit/reload"
)

// Client names the files of a TLS client.
type Client struct {
	CA         string // empty: the system's authorities
	Cert, Key  string // empty: no client certificate
	ServerName string // the name in the server's certificate, if it is not the one that is dialled
	ServerID   string // the server's SPIFFE id, which then counts instead of a name
}

// Flags declares the flags with a prefix.
func (c *Client) Flags(f *pflag.FlagSet, prefix string) {
	f.StringVar(&c.CA, prefix+"tls-ca", "", "PEM file with the authorities that vouch for the server, if they are not those of this machine")
	f.StringVar(&c.Cert, prefix+"tls-cert", "", "PEM file with the certificate to show to the server; it is read again when it changes")
	f.StringVar(&c.Key, prefix+"tls-key", "", "PEM file with the key of --"+prefix+"tls-cert")
	f.StringVar(&c.ServerName, prefix+"tls-server-name", "", "the name that the server's certificate has to have, if it is not the one in its address")
	f.StringVar(&c.ServerID, prefix+"tls-server-id", "", "the SPIFFE id that the server's certificate has to have; then its names do not count")
}

// Given reports whether any setting for TLS is given.
func (c *Client) Given() bool { return *c != Client{} }

// ClientFiles are a client's loaded files. They are checked for changes whenever a connection is
// made.
type ClientFiles struct{ files *reload.Value[*tls.Config] }

// Load reads the files.
func (c *Client) Load(o reload.Options) (*ClientFiles, error) {
	if (c.Cert == "") != (c.Key == "") {
		return nil, errors.New("a certificate and its key belong together: give --tls-cert and --tls-key")
	}
	var id spiffeid.ID
	if c.ServerID != "" {
		var err error
		if id, err = spiffeid.FromString(c.ServerID); err != nil {
			return nil, fmt.Errorf("--tls-server-id %s: %w", c.ServerID, err)
		}
	}
	var paths []string
	for _, path := range []string{c.CA, c.Cert, c.Key} {
		if path != "" {
			paths = append(paths, path)
		}
	}
	if o.What = "client certificate"; c.Cert == "" {
		o.What = "authorities of the server"
	}
	files, err := reload.Load(o, func(contents [][]byte) (*tls.Config, error) { return c.configure(contents, id) }, paths...)
	if err != nil {
		return nil, err
	}
	return &ClientFiles{files}, nil
}

func (c *Client) configure(contents [][]byte, server spiffeid.ID) (*tls.Config, error) {
	made := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if c.CA != "" {
		authorities, err := parseAuthorities(contents[0], c.CA)
		if err != nil {
			return nil, err
		}
		made.RootCAs, contents = poolOf(authorities), contents[1:]
	}
	if c.Cert != "" {
		pair, err := parsePair(contents[0], contents[1], c.Cert, c.Key)
		if err != nil {
			return nil, err
		}
		made.Certificates = []tls.Certificate{pair}
	}
	made.VerifyConnection = verifySort
	if !server.IsZero() {
		made.InsecureSkipVerify = true // of the names alone: VerifyConnection does the rest
		made.VerifyConnection = verifyID(server, made.RootCAs)
	}
	return made, nil
}

var errMachine = errors.New("the server shows a certificate that a discovery has signed, as those of machines are, and so is no mcp-server: somebody may have stolen a key")

// vouched reports whether some chain is free of authorities that may vouch for machines only.
func vouched(chains [][]*x509.Certificate) bool {
	return slices.ContainsFunc(chains, func(chain []*x509.Certificate) bool { return !slices.ContainsFunc(chain, authority.Delegated) })
}

// verifySort refuses a server with the right name but a certificate that was issued to another kind
// of mesh member.
func verifySort(s tls.ConnectionState) error {
	if !vouched(s.VerifiedChains) {
		return errMachine
	}
	id, err := identity.Of(s.PeerCertificates[0])
	if err != nil {
		return nil //nolint:nilerr // without a SPIFFE id, only the name counts
	}
	if member, ok := identity.ServerOf(id); ok && member.Program != identity.MCPServer {
		return fmt.Errorf("the server is %s, and no mcp-server", id)
	}
	return nil
}

// verifyID verifies a server by its SPIFFE id instead of its name.
func verifyID(want spiffeid.ID, roots *x509.CertPool) func(tls.ConnectionState) error {
	return func(s tls.ConnectionState) error {
		leaf := s.PeerCertificates[0]
		between := poolOf(s.PeerCertificates[1:])
		chains, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		if err != nil {
			return err
		}
		if _, member := identity.ServerOf(want); member && !vouched(chains) {
			return errMachine
		}
		if len(leaf.URIs) != 1 || leaf.URIs[0].String() != want.String() {
			return fmt.Errorf("the server is not %s: its certificate is for %v", want, leaf.URIs)
		}
		return nil
	}
}

// Config returns the configuration for a new connection.
func (f *ClientFiles) Config() *tls.Config { return f.files.Fresh().Clone() }
