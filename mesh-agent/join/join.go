// Package join gets a machine its certificates from discovery, by Istio's istio.v1.auth.IstioCertificateService: the first with a join token,
// or with a JSON web token of somebody whom the mesh trusts, and each after it with the one before. And it follows what the mesh trusts.
//
// Nobody is told a token who has not proved to be a discovery of the mesh: by a root that the token names, or that the machine was given.
package join

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"sync"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	istio "istio.io/api/security/v1alpha1"

	"github.com/pgmesh/pgmesh/internal/authority"
	"github.com/pgmesh/pgmesh/internal/identity"
	"github.com/pgmesh/pgmesh/internal/jointoken"
	"github.com/pgmesh/pgmesh/internal/membership"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// ByToken asks a discovery for the first certificate.
func ByToken(server string, token jointoken.Token) membership.Ask {
	return first(server, membership.ByToken(token, identity.Discovery), func() (string, error) { return token.Text(), nil })
}

// ByWebToken asks a discovery whose certificate leads to one of the roots for the first certificate. The token is read for each attempt.
func ByWebToken(server string, roots []*x509.Certificate, token func() (string, error)) membership.Ask {
	return first(server, membership.ByRoots(roots, identity.Discovery), token)
}

// first believes what discovery says of the mesh's roots, which has proved who it is by then.
func first(server string, config *tls.Config, bearer func() (string, error)) membership.Ask {
	return func(ctx context.Context, csr []byte) (membership.Granted, error) {
		token, err := bearer()
		if err != nil {
			return membership.Granted{}, err
		}
		chain, roots, err := create(ctx, server, config, token, csr)
		if err != nil {
			return membership.Granted{}, err
		}
		id, err := bearerOf(chain)
		if err != nil {
			return membership.Granted{}, err
		}
		return membership.Granted{Chain: chain, Trust: &identityv1.Trust{TrustDomain: id.TrustDomain().Name(), Roots: roots}}, nil
	}
}

// ByCertificate asks a discovery for the next certificate, with the one that there is.
func ByCertificate(server string, m *membership.Membership) membership.Ask {
	return func(ctx context.Context, csr []byte) (membership.Granted, error) {
		chain, _, err := create(ctx, server, toDiscovery(m), "", csr)
		return membership.Granted{Chain: chain}, err
	}
}

func toDiscovery(m *membership.Membership) *tls.Config {
	return m.Client(membership.IsProgram(identity.Discovery))
}

// create asks once. Each time is a connection of its own, which shows the certificate that there is now.
func create(ctx context.Context, server string, config *tls.Config, token string, csr []byte) (chain, roots []byte, err error) {
	c, err := connect(server, config)
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	answer, err := istio.NewIstioCertificateServiceClient(c).CreateCertificate(ctx, &istio.IstioCertificateRequest{Csr: string(csr)})
	if err != nil {
		return nil, nil, c.explain(err, givesNoCertificate)
	}
	parts := answer.GetCertChain()
	if len(parts) < 2 {
		return nil, nil, errors.New("discovery at " + server + " answered with no certificate, or with no root")
	}
	last := len(parts) - 1
	return []byte(strings.Join(parts[:last], "\n")), []byte(parts[last]), nil
}

func bearerOf(chain []byte) (spiffeid.ID, error) {
	certificates, err := authority.ParseCertificates(chain)
	if err != nil {
		return spiffeid.ID{}, err
	}
	return identity.Of(certificates[0])
}

// IsMachine takes the identities of machines.
func IsMachine(id spiffeid.ID) error {
	if _, ok := identity.WorkloadOf(id); ok {
		return nil
	}
	return errors.New(id.String() + " is no machine's identity, which is spiffe://TRUST-DOMAIN/ns/NAMESPACE/sa/SERVICE-ACCOUNT: is this the folder of another program?")
}

// connection is one to a discovery. It remembers why it did not come about, of which gRPC tells no more than a text.
type connection struct {
	*grpc.ClientConn

	server string

	mu     sync.Mutex
	reason error
}

func connect(server string, config *tls.Config, more ...grpc.DialOption) (*connection, error) {
	c := &connection{server: server}
	config = config.Clone()
	verify := config.VerifyConnection
	config.VerifyConnection = func(s tls.ConnectionState) error {
		err := verify(s)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.reason = err
		return err
	}
	options := append([]grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(config)), grpc.WithNoProxy()}, more...)
	client, err := grpc.NewClient("passthrough:///"+server, options...)
	if err != nil {
		return nil, err
	}
	c.ClientConn = client
	return c, nil
}
