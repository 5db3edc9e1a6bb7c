package members

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	signing "github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store/identity/trust"
)

// requireSomeRead admits callers who may read anything, for what all members of the mesh can see
// anyway.
func requireSomeRead(ctx context.Context) error {
	who := caller.From(ctx)
	if namespaces, all := who.Within(caller.Read); all || len(namespaces) > 0 {
		return nil
	}
	return who.RequireWithin(caller.Read, "", "see what the mesh trusts")
}

// ListAuthorities lists the authorities of the mesh.
func (s *Service) ListAuthorities(ctx context.Context, _ *adminv1.ListAuthoritiesRequest) (*adminv1.ListAuthoritiesResponse, error) {
	if err := requireSomeRead(ctx); err != nil {
		return nil, s.fail(err)
	}
	now, err := s.trust.Trust(ctx)
	if err != nil {
		return nil, s.fail(err)
	}
	rows, err := s.trust.Authorities(ctx)
	if err != nil {
		return nil, s.fail(err)
	}
	roots, err := s.roots(ctx)
	if err != nil && !errors.Is(err, errNoAuthority) {
		return nil, s.fail(err)
	}
	resp := &adminv1.ListAuthoritiesResponse{TrustDomain: now.TrustDomain, Aliases: now.Aliases, Roots: string(signing.EncodeCertificates(roots...))}
	for _, a := range rows {
		resp.Authorities = append(resp.Authorities, &adminv1.MeshAuthority{
			Id: a.ID, State: string(a.State), Fingerprint: a.Fingerprint, NotBefore: stamp.Of(a.NotBefore), NotAfter: stamp.Of(a.NotAfter), Certificate: string(a.Chain),
			CreatedAt: stamp.Of(a.Created), CreatedBy: a.By, ActivatedAt: stamp.Of(a.Activated), ActivatedBy: a.Activator, ReplacedAt: stamp.Of(a.Replaced),
			RetiredAt: stamp.Of(a.Retired), RetiredBy: a.Retirer,
		})
	}
	return resp, nil
}

// logged runs a change in the name of the caller, and logs it.
func (s *Service) logged(ctx context.Context, change func(by string) error, done string, about ...any) error {
	who := caller.From(ctx)
	if err := change(who.Author()); err != nil {
		return s.fail(err)
	}
	s.log.Info(done, append(about, "by", who.Identity())...)
	return nil
}

// RotateAuthority creates the authority that is to sign next.
func (s *Service) RotateAuthority(ctx context.Context, _ *adminv1.RotateAuthorityRequest) (*adminv1.RotateAuthorityResponse, error) {
	resp := &adminv1.RotateAuthorityResponse{}
	err := s.logged(ctx, func(by string) (err error) {
		if s.authority == nil {
			return errNoAuthority
		}
		resp.Id, err = s.authority.Rotate(ctx, by)
		return err
	}, "made an authority")
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// ActivateAuthority makes an authority the one that signs.
func (s *Service) ActivateAuthority(ctx context.Context, req *adminv1.ActivateAuthorityRequest) (*adminv1.ActivateAuthorityResponse, error) {
	return &adminv1.ActivateAuthorityResponse{}, s.logged(ctx, func(by string) error {
		return s.trust.ActivateAuthority(ctx, req.GetId(), req.GetForce(), by)
	}, "another authority signs for the mesh", "authority", req.GetId(), "forced", req.GetForce())
}

// RetireAuthority ends the trust in an authority.
func (s *Service) RetireAuthority(ctx context.Context, req *adminv1.RetireAuthorityRequest) (*adminv1.RetireAuthorityResponse, error) {
	return &adminv1.RetireAuthorityResponse{}, s.logged(ctx, func(by string) error {
		return s.trust.RetireAuthority(ctx, req.GetId(), req.GetForce(), by)
	}, "an authority is trusted no more", "authority", req.GetId(), "forced", req.GetForce())
}

// ListFederatedTrust lists the other meshes that are trusted.
func (s *Service) ListFederatedTrust(ctx context.Context, _ *adminv1.ListFederatedTrustRequest) (*adminv1.ListFederatedTrustResponse, error) {
	if err := requireSomeRead(ctx); err != nil {
		return nil, s.fail(err)
	}
	now, err := s.trust.Trust(ctx)
	if err != nil {
		return nil, s.fail(err)
	}
	resp := &adminv1.ListFederatedTrustResponse{}
	for _, f := range now.Federated {
		resp.Federated = append(resp.Federated, &adminv1.FederatedTrust{
			TrustDomain: f.TrustDomain, Roots: string(f.Roots), NotAfter: stamp.Of(f.NotAfter), Author: f.Author, UpdatedAt: stamp.Of(f.Updated),
		})
	}
	return resp, nil
}

// PutFederatedTrust adds or replaces the trust in another mesh.
func (s *Service) PutFederatedTrust(ctx context.Context, req *adminv1.PutFederatedTrustRequest) (*adminv1.PutFederatedTrustResponse, error) {
	return &adminv1.PutFederatedTrustResponse{}, s.logged(ctx, func(by string) error {
		return s.trust.TrustFederated(ctx, req.GetTrustDomain(), []byte(req.GetRoots()), by)
	}, "trusts another mesh", "trust_domain", req.GetTrustDomain())
}

// RemoveFederatedTrust removes the trust in another mesh.
func (s *Service) RemoveFederatedTrust(ctx context.Context, req *adminv1.RemoveFederatedTrustRequest) (*adminv1.RemoveFederatedTrustResponse, error) {
	return &adminv1.RemoveFederatedTrustResponse{}, s.logged(ctx, func(by string) error {
		was, err := s.trust.DistrustFederated(ctx, req.GetTrustDomain(), by)
		if err == nil && !was {
			err = status.Errorf(codes.NotFound, "there is no other mesh %q that is trusted: list them", req.GetTrustDomain())
		}
		return err
	}, "trusts another mesh no more", "trust_domain", req.GetTrustDomain())
}

// ListIssuers lists the issuers by whose tokens machines may join.
func (s *Service) ListIssuers(ctx context.Context, _ *adminv1.ListIssuersRequest) (*adminv1.ListIssuersResponse, error) {
	now, err := s.trust.Trust(ctx)
	if err != nil {
		return nil, s.fail(err)
	}
	resp := &adminv1.ListIssuersResponse{}
	for _, i := range now.Issuers {
		resp.Issuers = append(resp.Issuers, &adminv1.JoinIssuer{
			Name: i.Name, Issuer: i.Issuer, Audiences: i.Audiences, Jwks: i.JWKS, JwksUri: i.JWKSURI, Claims: i.Claims, Namespace: i.Namespace,
			ServiceAccount: i.ServiceAccount, WorkloadGroup: i.WorkloadGroup, Author: i.Author, UpdatedAt: stamp.Of(i.Updated),
		})
	}
	return resp, nil
}

// PutIssuer adds or replaces the rule for an issuer.
func (s *Service) PutIssuer(ctx context.Context, req *adminv1.PutIssuerRequest) (*adminv1.PutIssuerResponse, error) {
	i := req.GetIssuer()
	return &adminv1.PutIssuerResponse{}, s.logged(ctx, func(by string) error {
		return s.trust.PutJoinIssuer(ctx, trust.JoinIssuer{
			Name: i.GetName(), Issuer: i.GetIssuer(), Audiences: i.GetAudiences(), JWKS: i.GetJwks(), JWKSURI: i.GetJwksUri(), Claims: i.GetClaims(),
			Namespace: i.GetNamespace(), ServiceAccount: i.GetServiceAccount(), WorkloadGroup: i.GetWorkloadGroup(),
		}, by)
	}, "machines may join by an issuer's tokens", "issuer", i.GetName())
}

// RemoveIssuer removes the rule for an issuer.
func (s *Service) RemoveIssuer(ctx context.Context, req *adminv1.RemoveIssuerRequest) (*adminv1.RemoveIssuerResponse, error) {
	return &adminv1.RemoveIssuerResponse{}, s.logged(ctx, func(by string) error {
		was, err := s.trust.RemoveJoinIssuer(ctx, req.GetName(), by)
		if err == nil && !was {
			err = status.Errorf(codes.NotFound, "there is no issuer %q: list them", req.GetName())
		}
		return err
	}, "machines join no more by an issuer's tokens", "issuer", req.GetName())
}
