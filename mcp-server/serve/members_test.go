package serve_test

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/identity/membership"
	"github.com/pgmesh/pgmesh/identity/tlsfiles"
	"github.com/pgmesh/pgmesh/internal/dial"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mcp-server/identity/tokens"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store/identity/callers"
	"github.com/pgmesh/pgmesh/store/identity/members"
	"github.com/pgmesh/pgmesh/store/identity/trust"
)

// clerk calls the APIs about members with the scopes of a token.
type clerk struct {
	tokens  adminv1.JoinTokenServiceClient
	members adminv1.MemberServiceClient
	trust   adminv1.TrustAdminServiceClient
}

func clerkOf(conn grpc.ClientConnInterface) clerk {
	return clerk{adminv1.NewJoinTokenServiceClient(conn), adminv1.NewMemberServiceClient(conn), adminv1.NewTrustAdminServiceClient(conn)}
}

// ratified is a mesh that has an authority, and the certificate of that.
func ratified(t *testing.T) (*secureServer, *certtest.Authority) {
	t.Helper()
	f, root := startSecure(t, func(*serve.Options) {}), certtest.NewAuthority(t)
	won, err := trust.New(f.store).FirstAuthority(t.Context(), root.PEM, "sealed", "mcp-server")
	require.NoError(t, err)
	require.True(t, won)
	return f, root
}

func requireCode(t *testing.T, code codes.Code, says string, err error) {
	t.Helper()
	require.Equal(t, code, status.Code(err), "%v", err)
	require.ErrorContains(t, err, says)
}

func TestAJoinTokenNamesTheRootsAndIsShownOnce(t *testing.T) {
	t.Parallel()
	f := startSecure(t, func(*serve.Options) {})
	shop := clerkOf(f.dial(f.withToken(f.token("shopkeeper", "write:shop"))))
	request := &adminv1.CreateJoinTokenRequest{Name: "web", Namespace: "shop", ServiceAccount: "cart", MaxUses: 2}
	_, err := shop.tokens.CreateJoinToken(t.Context(), request)
	requireCode(t, codes.FailedPrecondition, "the mesh has no authority that a join token could be bound to: run mcp-server with --secrets-key-file", err)
	root := certtest.NewAuthority(t)
	_, err = trust.New(f.store).FirstAuthority(t.Context(), root.PEM, "sealed", "mcp-server")
	require.NoError(t, err)

	made, err := shop.tokens.CreateJoinToken(t.Context(), request)
	require.NoError(t, err)
	token, err := jointoken.Parse(made.GetSecret())
	require.NoError(t, err)
	block, _ := pem.Decode(root.PEM)
	certificate, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	require.True(t, token.Trusts(certificate))
	hash := token.Hash()
	joined, err := members.New(f.store).RedeemMachines(t.Context(), "discovery", []members.Joining{{TokenHash: hash[:], KeyHash: make([]byte, 32), Peer: "10.0.0.1:1"}})
	require.NoError(t, err)
	require.Empty(t, joined[0].Refusal)
	require.Equal(t, []string{"shop", "cart"}, []string{joined[0].Namespace, joined[0].ServiceAccount})

	list, err := shop.tokens.ListJoinTokens(t.Context(), &adminv1.ListJoinTokensRequest{})
	require.NoError(t, err)
	require.Len(t, list.GetTokens(), 1)
	told := list.GetTokens()[0]
	require.Equal(t, []any{"web", int32(1), int32(2), "valid", "shopkeeper"}, []any{told.GetName(), told.GetUses(), told.GetMaxUses(), told.GetState(), told.GetCreatedBy()})
	require.WithinDuration(t, time.Now().Add(time.Hour), told.GetExpiresAt().AsTime(), time.Minute)
	_, err = shop.tokens.CreateJoinToken(t.Context(), request)
	requireCode(t, codes.AlreadyExists, `"web" (choose another name, or revoke that one first)`, err)
	request.Name = ""
	unnamed, err := shop.tokens.CreateJoinToken(t.Context(), request)
	require.NoError(t, err)
	require.Regexp(t, "^join-[a-z2-7]{8}$", unnamed.GetToken().GetName())
	request.ExpiresAt = timestamppb.New(time.Now().Add(-time.Hour))
	_, err = shop.tokens.CreateJoinToken(t.Context(), request)
	requireCode(t, codes.InvalidArgument, "would have expired already", err)

	_, err = shop.tokens.RevokeJoinToken(t.Context(), &adminv1.RevokeJoinTokenRequest{Name: "web"})
	require.NoError(t, err)
	_, err = shop.tokens.RevokeJoinToken(t.Context(), &adminv1.RevokeJoinTokenRequest{Name: "web"})
	requireCode(t, codes.NotFound, `there is no join token "web" in force that you may revoke`, err)
	_, metrics := f.get("/metrics")
	require.NotContains(t, metrics+f.log.String(), made.GetSecret()[len(jointoken.Prefix):len(jointoken.Prefix)+16])
}

func TestWhoMayWorkOnMembers(t *testing.T) {
	t.Parallel()
	f, _ := ratified(t)
	of := func(name string, scopes ...string) clerk {
		return clerkOf(f.dial(f.withToken(f.token(name, scopes...))))
	}
	issues := []members.Issue{
		{Identity: "spiffe://mesh/ns/shop/sa/cart", Enrolment: "m-shop"},
		{Identity: "spiffe://mesh/ns/bank/sa/vault", Enrolment: "m-bank"},
		{Identity: "spiffe://mesh/pgmesh/discovery/eu-1", Enrolment: "s-eu"},
		{Refusal: "token_unknown", Detail: "there is no such join token"},
	}
	for i := range issues {
		_, _ = rand.Read(issues[i].ID[:])
		issues[i].At, issues[i].NotAfter = time.Now(), time.Now().Add(time.Hour)
	}
	require.NoError(t, members.New(f.store).RecordIssues(t.Context(), "discovery", issues))
	token := func(namespace, program string) *adminv1.CreateJoinTokenRequest {
		r := &adminv1.CreateJoinTokenRequest{Namespace: namespace, Program: program}
		if program == "" {
			r.ServiceAccount = "cart"
		}
		return r
	}
	admin, writer, shop, some, reader := of("admin", "admin"), of("writer", "write"), of("shop", "write:shop", "read:bank"), of("some", "write:shop:vs"), of("reader", "read:shop")

	for _, c := range []struct {
		who     clerk
		request *adminv1.CreateJoinTokenRequest
		code    codes.Code
	}{
		{admin, token("bank", ""), codes.OK},
		{admin, token("", "discovery"), codes.OK},
		{writer, token("bank", ""), codes.OK},
		{writer, token("", "discovery"), codes.PermissionDenied},
		{shop, token("shop", ""), codes.OK},
		{shop, token("bank", ""), codes.PermissionDenied},
		{shop, token("", ""), codes.PermissionDenied},
		{shop, token("", "discovery"), codes.PermissionDenied},
		{some, token("shop", ""), codes.PermissionDenied},
		{reader, token("shop", ""), codes.PermissionDenied},
	} {
		_, err := c.who.tokens.CreateJoinToken(t.Context(), c.request)
		require.Equal(t, c.code, status.Code(err), "%v: %v", c.request, err)
	}
	_, err := some.tokens.CreateJoinToken(t.Context(), token("shop", ""))
	require.ErrorContains(t, err, `token:some may not make or revoke join tokens of the namespace "shop": it has the scopes write:shop:VirtualService`)

	machines := func(who clerk, namespaces ...string) ([]string, error) {
		resp, err := who.members.ListMachines(t.Context(), &adminv1.ListMachinesRequest{Namespaces: namespaces})
		names := []string{}
		for _, m := range resp.GetMachines() {
			names = append(names, m.GetEnrolment())
		}
		return names, err
	}
	for _, c := range []struct {
		who        clerk
		namespaces []string
		sees       []string
		code       codes.Code
	}{
		{admin, nil, []string{"s-eu", "m-bank", "m-shop"}, codes.OK},
		{writer, []string{"bank"}, []string{"m-bank"}, codes.OK},
		{shop, nil, []string{"m-bank", "m-shop"}, codes.OK},
		{reader, nil, []string{"m-shop"}, codes.OK},
		{reader, []string{"bank"}, []string{}, codes.PermissionDenied},
		{some, nil, []string{}, codes.PermissionDenied},
	} {
		got, err := machines(c.who, c.namespaces...)
		require.Equal(t, c.code, status.Code(err), "%v", err)
		require.Equal(t, c.sees, got)
	}
	count := func(who clerk, req *adminv1.ListIssuesRequest) int {
		resp, err := who.members.ListIssues(t.Context(), req)
		require.NoError(t, err)
		return len(resp.GetIssues())
	}
	require.Equal(t, []int{4, 1, 2, 1}, []int{
		count(admin, &adminv1.ListIssuesRequest{}), count(admin, &adminv1.ListIssuesRequest{Refused: true}), count(shop, &adminv1.ListIssuesRequest{}),
		count(shop, &adminv1.ListIssuesRequest{Enrolment: "m-bank", Since: timestamppb.New(time.Now().Add(-time.Hour)), Limit: 5}),
	})
	_, err = admin.members.ListIssues(t.Context(), &adminv1.ListIssuesRequest{Limit: 100000})
	requireCode(t, codes.InvalidArgument, "limit: 100000 is not between 1 and 10000", err)

	for _, c := range []struct {
		who    clerk
		member *adminv1.Member
		code   codes.Code
	}{
		{shop, &adminv1.Member{Enrolment: "m-shop"}, codes.OK},
		{shop, &adminv1.Member{Enrolment: "m-bank"}, codes.PermissionDenied},
		{shop, &adminv1.Member{Enrolment: "s-eu"}, codes.NotFound},
		{reader, &adminv1.Member{Enrolment: "m-bank"}, codes.NotFound},
		{admin, &adminv1.Member{Enrolment: "m-9"}, codes.NotFound},
		{reader, &adminv1.Member{Enrolment: "m-shop"}, codes.PermissionDenied},
		{writer, &adminv1.Member{Enrolment: "s-eu"}, codes.PermissionDenied},
		{admin, &adminv1.Member{Enrolment: "s-eu"}, codes.OK},
		{shop, &adminv1.Member{Namespace: "shop", ServiceAccount: "cart"}, codes.OK},
		{shop, &adminv1.Member{Namespace: "bank", ServiceAccount: "vault"}, codes.PermissionDenied},
		{writer, &adminv1.Member{Program: "discovery", Name: "eu-1"}, codes.PermissionDenied},
		{admin, &adminv1.Member{Program: "discovery", Name: "eu-1"}, codes.OK},
		{admin, &adminv1.Member{Program: "cook", Name: "eu-1"}, codes.InvalidArgument},
		{admin, &adminv1.Member{}, codes.InvalidArgument},
		{admin, nil, codes.InvalidArgument},
		{admin, &adminv1.Member{Enrolment: "m-shop", ServiceAccount: "cart"}, codes.InvalidArgument},
		{admin, &adminv1.Member{Namespace: "Shop", ServiceAccount: "cart"}, codes.InvalidArgument},
	} {
		changed, err := c.who.members.RevokeMember(t.Context(), &adminv1.RevokeMemberRequest{Member: c.member, Reason: "stolen"})
		require.Equal(t, c.code, status.Code(err), "%v: %v", c.member, err)
		require.Equal(t, c.code == codes.OK, changed.GetChanged())
		_, err = c.who.members.RestoreMember(t.Context(), &adminv1.RestoreMemberRequest{Member: c.member})
		require.Equal(t, c.code, status.Code(err), "%v: %v", c.member, err)
	}
	_, err = admin.members.RestoreMember(t.Context(), &adminv1.RestoreMemberRequest{Member: &adminv1.Member{Enrolment: "m-shop"}})
	requireCode(t, codes.NotFound, "it is not revoked", err)
	revoked, err := shop.members.ListRevocations(t.Context(), &adminv1.ListRevocationsRequest{Namespaces: []string{"shop"}})
	require.NoError(t, err)
	require.Len(t, revoked.GetRevocations(), 2)
	require.Equal(t, "cart", revoked.GetRevocations()[0].GetMember().GetServiceAccount())
	require.Equal(t, []string{"stolen", "shop", "shop"}, []string{revoked.GetRevocations()[1].GetReason(), revoked.GetRevocations()[1].GetRevokedBy(), revoked.GetRevocations()[1].GetLiftedBy()})
}

func TestWhoMayWorkOnWhatTheMeshTrusts(t *testing.T) {
	t.Parallel()
	f, root := ratified(t)
	admin, reader := clerkOf(f.dial(f.withToken(f.token("admin", "admin")))), clerkOf(f.dial(f.withToken(f.token("reader", "read:shop"))))
	writer := clerkOf(f.dial(f.withToken(f.token("writer", "write"))))
	list, err := reader.trust.ListAuthorities(t.Context(), &adminv1.ListAuthoritiesRequest{})
	require.NoError(t, err)
	require.Equal(t, "cluster.local", list.GetTrustDomain())
	require.Equal(t, []string{"active", string(root.PEM)}, []string{list.GetAuthorities()[0].GetState(), list.GetAuthorities()[0].GetCertificate()})
	partner := &adminv1.PutFederatedTrustRequest{TrustDomain: "partner.example", Roots: string(certtest.NewAuthority(t).PEM)}
	issuer := &adminv1.PutIssuerRequest{Issuer: &adminv1.JoinIssuer{
		Name: "cloud", Issuer: "https://cloud.example", Audiences: []string{"pgmesh"}, JwksUri: "https://cloud.example/keys", Claims: map[string]string{"project": "shop"},
		Namespace: "shop", ServiceAccount: "cart",
	}}
	for _, c := range []struct {
		who  clerk
		code codes.Code
	}{{writer, codes.PermissionDenied}, {admin, codes.OK}} {
		for what, call := range map[string]func() error{
			"federated": func() error { _, err := c.who.trust.PutFederatedTrust(t.Context(), partner); return err },
			"issuer":    func() error { _, err := c.who.trust.PutIssuer(t.Context(), issuer); return err },
			"issuers": func() error {
				_, err := c.who.trust.ListIssuers(t.Context(), &adminv1.ListIssuersRequest{})
				return err
			},
		} {
			require.Equal(t, c.code, status.Code(call()), what)
		}
	}
	federated, err := reader.trust.ListFederatedTrust(t.Context(), &adminv1.ListFederatedTrustRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"partner.example", partner.GetRoots(), "admin"}, []string{federated.GetFederated()[0].GetTrustDomain(), federated.GetFederated()[0].GetRoots(), federated.GetFederated()[0].GetAuthor()})
	issuers, err := admin.trust.ListIssuers(t.Context(), &adminv1.ListIssuersRequest{})
	require.NoError(t, err)
	require.Equal(t, issuer.GetIssuer().GetClaims(), issuers.GetIssuers()[0].GetClaims())
	for i, code := range []codes.Code{codes.OK, codes.NotFound} {
		_, err = admin.trust.RemoveFederatedTrust(t.Context(), &adminv1.RemoveFederatedTrustRequest{TrustDomain: "partner.example"})
		require.Equal(t, code, status.Code(err), i)
		_, err = admin.trust.RemoveIssuer(t.Context(), &adminv1.RemoveIssuerRequest{Name: "cloud"})
		require.Equal(t, code, status.Code(err), i)
	}

	next, err := trust.New(f.store).AddAuthority(t.Context(), certtest.NewAuthority(t).PEM, "sealed", "x")
	require.NoError(t, err)
	_, err = writer.trust.ActivateAuthority(t.Context(), &adminv1.ActivateAuthorityRequest{Id: next, Force: true})
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	_, err = writer.trust.RotateAuthority(t.Context(), &adminv1.RotateAuthorityRequest{})
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	_, err = admin.trust.ActivateAuthority(t.Context(), &adminv1.ActivateAuthorityRequest{Id: next})
	requireCode(t, codes.FailedPrecondition, "not every member of the mesh may have heard of authority 2", err)
	_, err = admin.trust.ActivateAuthority(t.Context(), &adminv1.ActivateAuthorityRequest{Id: next, Force: true})
	require.NoError(t, err)
	_, err = admin.trust.RetireAuthority(t.Context(), &adminv1.RetireAuthorityRequest{Id: 1})
	requireCode(t, codes.FailedPrecondition, "authority 1 was replaced only", err)
	_, err = admin.trust.RetireAuthority(t.Context(), &adminv1.RetireAuthorityRequest{Id: 1, Force: true})
	require.NoError(t, err)
	list, err = admin.trust.ListAuthorities(t.Context(), &adminv1.ListAuthoritiesRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"retired", "admin", "active", "admin"}, []string{
		list.GetAuthorities()[0].GetState(), list.GetAuthorities()[0].GetRetiredBy(), list.GetAuthorities()[1].GetState(), list.GetAuthorities()[1].GetActivatedBy(),
	})
}

// What is made over the API counts with the authority that signs: a token lets a server join, and
// another root takes over.
func TestTheAPIAndTheAuthorityAreOne(t *testing.T) {
	t.Parallel()
	m := found(t, pgtest.New(t), nil)
	m.token(identity.Discovery, "first") // this requires an authority
	now, err := trust.New(m.store).Trust(t.Context())
	require.NoError(t, err)
	secret, _, err := tokens.Create(t.Context(), callers.New(m.store), "admin", []string{"admin"}, time.Time{}, "")
	require.NoError(t, err)
	bearer := dial.Options{TLS: tlsfiles.Client{CA: filepath.Join(t.TempDir(), "mesh.pem")}, Token: secret}
	require.NoError(t, os.WriteFile(bearer.TLS.CA, now.Roots[0].Chain, 0o600))
	conn, err := bearer.To(nil, m.MCP.String())
	require.NoError(t, err)
	client, err := grpc.NewClient(m.MCP.String(), conn.DialOptions()...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	admin := clerkOf(client)

	made, err := admin.tokens.CreateJoinToken(t.Context(), &adminv1.CreateJoinTokenRequest{Program: "discovery"})
	require.NoError(t, err)
	token, err := jointoken.Parse(made.GetSecret())
	require.NoError(t, err)
	member, err := membership.Join(t.Context(), membership.Options{}, m.enroll(token, "eu"))
	require.NoError(t, err)
	machines, err := admin.members.ListMachines(t.Context(), &adminv1.ListMachinesRequest{})
	require.NoError(t, err)
	require.Len(t, machines.GetMachines(), 2, "itself, and the server")
	told := machines.GetMachines()[0]
	require.Equal(t, []string{member.Current().ID.String(), now.Roots[0].Fingerprint}, []string{told.GetIdentity(), told.GetAuthority()})
	require.Regexp(t, "^s-", told.GetEnrolment())

	next, err := admin.trust.RotateAuthority(t.Context(), &adminv1.RotateAuthorityRequest{})
	require.NoError(t, err)
	_, err = admin.trust.RotateAuthority(t.Context(), &adminv1.RotateAuthorityRequest{})
	requireCode(t, codes.FailedPrecondition, "there is an authority already that is to sign next: 2", err)
	both, err := admin.tokens.CreateJoinToken(t.Context(), &adminv1.CreateJoinTokenRequest{Namespace: "shop", ServiceAccount: "cart"})
	require.NoError(t, err)
	require.Greater(t, len(both.GetSecret()), len(made.GetSecret()), "it names the next root, too")
	_, err = admin.trust.ActivateAuthority(t.Context(), &adminv1.ActivateAuthorityRequest{Id: next.GetId(), Force: true})
	require.NoError(t, err)
	_, err = admin.trust.RetireAuthority(t.Context(), &adminv1.RetireAuthorityRequest{Id: 1})
	requireCode(t, codes.FailedPrecondition, "of the mesh ha", err)
	require.ErrorContains(t, err, "a certificate that authority 1 signed, such as "+member.Current().ID.String())
}
