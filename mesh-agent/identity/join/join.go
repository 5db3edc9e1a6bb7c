// Package join obtains a machine's certificates from discovery, by Istio's
// istio.v1.auth.IstioCertificateService: the first with a join token or a JSON web token from an
// issuer that the mesh trusts, each later one with the certificate before it. It also watches the
// mesh's trust.
//
// A token is sent only to a server that has proved to be a discovery of the mesh, by a root that
// the token names or that the machine was given.
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
	"google.golang.org/protobuf/types/known/structpb"
	istio "istio.io/api/security/v1alpha1"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/identity/membership"
	"github.com/pgmesh/pgmesh/internal/rpc"
	"github.com/pgmesh/pgmesh/internal/standardmetrics"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/upstream"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// groupHeader names the WorkloadGroup that a certificate was issued for.
const groupHeader = "pgmesh-workload-group"

// ByToken asks for the first certificate with a join token, at any of the servers' addresses. Each
// group is called with the WorkloadGroup that the certificate was issued for, "" for none.
func ByToken(servers []string, token jointoken.Token, group ...func(string)) membership.Ask {
	return first(servers, membership.ByToken(token, identity.Discovery), func() (string, error) { return token.Text(), nil }, group...)
}

// ByWebToken asks for the first certificate with a JSON web token, which it reads for each attempt.
// Discovery's certificate has to lead to one of the roots.
func ByWebToken(servers []string, roots []*x509.Certificate, token func() (string, error), group ...func(string)) membership.Ask {
	return first(servers, membership.ByRoots(roots, identity.Discovery), token, group...)
}

// first takes the mesh's roots from the answer: TLS has proved by then that it comes from a
// discovery.
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
		chain, roots, err := create(ctx, u, csr, "", grpc.Header(&header))
		if err != nil {
			return membership.Granted{}, err
		}
		for _, f := range group {
			f(strings.Join(header.Get(groupHeader), ""))
		}
		id, err := bearerOf(chain)
		if err != nil {
			return membership.Granted{}, err
		}
		return membership.Granted{Chain: chain, Trust: &identityv1.Trust{TrustDomain: id.TrustDomain().Name(), Roots: roots}}, nil
	}
}

// ByCertificate asks for the next certificate over a connection that shows the present one. Metrics
// are to call the machine by an alias.
func ByCertificate(u *upstream.Upstream, alias string) membership.Ask {
	return func(ctx context.Context, csr []byte) (membership.Granted, error) {
		chain, _, err := create(ctx, u, csr, alias)
		return membership.Granted{Chain: chain}, err
	}
}

// create may ask twice, when a discovery goes away before its answer arrives. Both answers are
// usable, because the key is the same.
func create(ctx context.Context, u *upstream.Upstream, csr []byte, alias string, options ...grpc.CallOption) (chain, roots []byte, err error) {
	request := &istio.IstioCertificateRequest{Csr: string(csr)}
	if alias != "" {
		request.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{standardmetrics.AliasKey: structpb.NewStringValue(alias)}}
	}
	answer, err := rpc.Again(func() (*istio.IstioCertificateResponse, error) {
		return istio.NewIstioCertificateServiceClient(u).CreateCertificate(ctx, request, options...)
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

// bearerOf returns the identity in a chain's first certificate.
func bearerOf(chain []byte) (spiffeid.ID, error) {
	certificates, err := authority.ParseCertificates(chain)
	if err != nil {
		return spiffeid.ID{}, err
	}
	return identity.Of(certificates[0])
}

// IsMachine returns an error unless id is a machine's identity.
func IsMachine(id spiffeid.ID) error {
	if _, ok := identity.WorkloadOf(id); ok {
		return nil
	}
	return errors.New(id.String() + " is no machine's identity, which is spiffe://TRUST-DOMAIN/ns/NAMESPACE/sa/SERVICE-ACCOUNT: is this the folder of another program?")
}
