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

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	istio "istio.io/api/security/v1alpha1"

	"github.com/pgmesh/pgmesh/internal/authority"
	"github.com/pgmesh/pgmesh/internal/identity"
	"github.com/pgmesh/pgmesh/internal/jointoken"
	"github.com/pgmesh/pgmesh/internal/membership"
	"github.com/pgmesh/pgmesh/internal/rpc"
	"github.com/pgmesh/pgmesh/mesh-agent/upstream"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// groupHeader is the header of an answer that has the WorkloadGroup that a certificate was given for.
const groupHeader = "pgmesh-workload-group"

// ByToken asks a discovery, at any of its addresses, for the first certificate. Who wants to know is told for which WorkloadGroup
// that was given, "" for none.
func ByToken(servers []string, token jointoken.Token, group ...func(string)) membership.Ask {
	return first(servers, membership.ByToken(token, identity.Discovery), func() (string, error) { return token.Text(), nil }, group...)
}

// ByWebToken asks a discovery whose certificate leads to one of the roots for the first certificate. The token is read for each attempt.
func ByWebToken(servers []string, roots []*x509.Certificate, token func() (string, error), group ...func(string)) membership.Ask {
	return first(servers, membership.ByRoots(roots, identity.Discovery), token, group...)
}

// first believes what discovery says of the mesh's roots, which has proved who it is by then.
func first(servers []string, config *tls.Config, bearer func() (string, error), group ...func(string)) membership.Ask {
	return func(ctx context.Context, csr []byte) (membership.Granted, error) {
		token, err := bearer()
		if err != nil {
			return membership.Granted{}, err
		}
		u, err := upstream.Dial(upstream.Options{Addresses: servers, Credentials: &upstream.Credentials{TLS: config}})
		if err != nil {
			return membership.Granted{}, err
		}
		defer u.Close()
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
		var header metadata.MD
		chain, roots, err := create(ctx, u, csr, grpc.Header(&header))
		if err != nil {
			return membership.Granted{}, err
		}
		for _, told := range group {
			told(strings.Join(header.Get(groupHeader), ""))
		}
		id, err := bearerOf(chain)
		if err != nil {
			return membership.Granted{}, err
		}
		return membership.Granted{Chain: chain, Trust: &identityv1.Trust{TrustDomain: id.TrustDomain().Name(), Roots: roots}}, nil
	}
}

// ByCertificate asks for the next certificate, over a connection that shows the one that there is.
func ByCertificate(u *upstream.Upstream) membership.Ask {
	return func(ctx context.Context, csr []byte) (membership.Granted, error) {
		chain, _, err := create(ctx, u, csr)
		return membership.Granted{Chain: chain}, err
	}
}

// create asks. A discovery that goes away meanwhile may have answered: what it gave is given again, for the key is the same.
func create(ctx context.Context, u *upstream.Upstream, csr []byte, options ...grpc.CallOption) (chain, roots []byte, err error) {
	answer, err := rpc.Again(func() (*istio.IstioCertificateResponse, error) {
		return istio.NewIstioCertificateServiceClient(u).CreateCertificate(ctx, &istio.IstioCertificateRequest{Csr: string(csr)}, options...)
	})
	if err != nil {
		return nil, nil, explain(err, u, givesNoCertificate)
	}
	parts := answer.GetCertChain()
	if len(parts) < 2 {
		return nil, nil, errors.New("discovery answered with no certificate, or with no root")
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
