package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	signing "github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/internal/kit/days"
	"github.com/pgmesh/pgmesh/mcp-server/identity/signer"
)

const createAuthorityHelp = `Print the certificate of an authority whose key stays where it is: in a token of PKCS #11, or with a KMS.

It is a root, which has signed itself. With --request it is a request in its place, for an authority of yours to sign: as one that may have
another beneath it. mcp-server run signs with it: --authority-cert with what was printed, and the same --authority-key or
--authority-signer-command.`

// newAuthority has the flags of authority create.
type newAuthority struct {
	key         signer.Source
	trustDomain string
	lifetime    time.Duration
	generate    bool
	request     bool
}

func createAuthorityCommand() *cobra.Command {
	var n newAuthority
	cmd := &cobra.Command{
		Use: "create", Short: "Print the certificate of an authority whose key is in a token or with a KMS", Long: createAuthorityHelp, Args: cobra.NoArgs,
		Example: `  KEY='pkcs11:token=mesh;object=root'
  KEY+='?module-path=/usr/lib/softhsm/libsofthsm2.so'
  KEY+='&pin-source=/etc/pgmesh/pin'
  mcp-server authority create --generate --authority-key "$KEY" > root.pem
  mcp-server authority create --authority-signer-command /etc/pgmesh/kms-sign --authority-public-key public.pem > root.pem`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			made, err := n.create(cmd.Context())
			if err == nil {
				_, err = fmt.Fprint(cmd.OutOrStdout(), string(made))
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&n.key.Key, signer.KeyFlag, "", "the key, in its token: pkcs11:token=LABEL;object=LABEL, then ?module-path=LIBRARY and &pin-source=FILE")
	f.StringVar(&n.key.Command, signer.CommandFlag, "", signer.CommandHelp)
	f.StringVar(&n.key.PublicKey, "authority-public-key", "", "with --authority-signer-command: file with the public key, PEM or DER")
	f.StringVar(&n.trustDomain, "trust-domain", "cluster.local", "the mesh's, for the name of the root")
	days.Var(f, &n.lifetime, "lifetime", signing.RootLifetime, "how long the root is valid")
	f.BoolVar(&n.generate, "generate", false, "make the key in the token first: ECDSA P-256, and never to be taken out")
	f.BoolVar(&n.request, "request", false, "print a request for a certificate, in place of a root")
	return cmd
}

func (n *newAuthority) create(ctx context.Context) ([]byte, error) {
	if !n.key.External() {
		return nil, errors.New("where is the key? Give --authority-key pkcs11:…, or --authority-signer-command; mcp-server run makes an authority of its own where neither is wanted")
	}
	if err := n.key.Check(); err != nil {
		return nil, err
	}
	if n.generate {
		if err := n.key.Generate(ctx); err != nil {
			return nil, err
		}
	}
	key, err := n.key.New(ctx)
	switch {
	case err != nil:
		return nil, err
	case n.request:
		return signing.NewRequestFor(key, "authority of "+n.trustDomain)
	}
	root, err := signing.NewRootOf(key, n.trustDomain, n.lifetime)
	if err != nil {
		return nil, err
	}
	return root.ChainPEM(), nil
}
