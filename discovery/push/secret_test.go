package push_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/kinds"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// applySecret puts a secret of the namespace shop into the mesh. A key that does not fit comes by
// SQL, around validation.
func (b *bench) applySecret(t *testing.T, name string, pair certtest.Pair, authorities []byte) {
	t.Helper()
	text := fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: shop}\ndata: {tls.crt: %s, tls.key: %s", name,
		base64.StdEncoding.EncodeToString(pair.Cert), base64.StdEncoding.EncodeToString(pair.Key))
	if authorities != nil {
		text += ", ca.crt: " + base64.StdEncoding.EncodeToString(authorities)
	}
	documents, err := kinds.Parser{DefaultNamespace: "default", Secrets: true}.Parse("test.yaml", []byte(text+"}"))
	require.NoError(t, err)
	b.push([]kinds.Change{{Key: documents[0].Resource.Key(), Resource: documents[0].Resource}})
}

func (b *bench) router(t *testing.T, namespace string) *served.Subscriber {
	t.Helper()
	s, err := b.Open(t.Context(), &corev3.Node{Id: "router~10.0.0.8~gate." + namespace + "~" + namespace + ".svc.cluster.local"}, true)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func secretNames(s *served.Subscriber) (names []string) {
	for r := range s.Snapshot().Sets[push.SecretType].All() {
		names = append(names, r.Name)
	}
	return names
}

func TestSecretsAreForGatewaysOfTheirNamespace(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.apply(t, service)
	gate, foreign, sidecar := b.router(t, "shop"), b.router(t, "elsewhere"), b.proxy(t, "10.0.0.1", "shop")
	before := gate.Snapshot().Sets
	authority := certtest.NewAuthority(t)
	b.applySecret(t, "gate", authority.Issue(nil), authority.PEM)

	require.Equal(t, []string{
		"kubernetes-gateway://shop/gate", "kubernetes-gateway://shop/gate-cacert", "kubernetes://gate", "kubernetes://gate-cacert",
		"kubernetes://shop/gate", "kubernetes://shop/gate-cacert",
	}, secretNames(gate))
	require.Empty(t, secretNames(foreign))
	require.Empty(t, secretNames(sidecar))
	for typeURL, set := range before {
		if typeURL != push.SecretType {
			require.Same(t, set, gate.Snapshot().Sets[typeURL], "%s is not made anew for a secret", typeURL)
		}
	}
	b.remove(kinds.Key{Kind: kinds.Secret, Namespace: "shop", Name: "gate"})
	require.Empty(t, secretNames(gate))
}

// What Envoy would refuse is not sent, and the last good state stays until the secret is corrected.
func TestASecretWhoseKeyDoesNotFitIsNotSent(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.apply(t, service)
	gate, authority := b.router(t, "shop"), certtest.NewAuthority(t)
	b.applySecret(t, "gate", authority.Issue(nil), nil)
	good := gate.Snapshot().Sets[push.SecretType].Get("kubernetes://gate")
	require.NotNil(t, good)

	snapshot := b.config.Snapshot()
	broken := *snapshot.Get(kinds.Key{Kind: kinds.Secret, Namespace: "shop", Name: "gate"})
	spec := &kinds.Resource{Kind: broken.Kind, Namespace: broken.Namespace, Name: broken.Name, Spec: kinds.SpecOf(mismatched(t, authority))}
	b.push([]kinds.Change{{Key: spec.Key(), Resource: spec}})
	require.Same(t, good, gate.Snapshot().Sets[push.SecretType].Get("kubernetes://gate"))
	problems := b.mesh.Problems()
	require.Len(t, problems, 1)
	require.Equal(t, "Secret shop/gate", problems[0].Of.String())
	require.Contains(t, problems[0].Reason, "is not the key of the certificate")
	require.NotContains(t, problems[0].Reason, "BEGIN")

	b.applySecret(t, "gate", authority.Issue(nil), nil)
	require.NotEqual(t, good.Version, gate.Snapshot().Sets[push.SecretType].Get("kubernetes://gate").Version)
	require.Empty(t, b.mesh.Problems())
	require.True(t, strings.HasPrefix(gate.Snapshot().Sets[push.SecretType].Get("kubernetes://gate").Body.GetTypeUrl(), "type.googleapis.com/envoy"))
}

// A secret may be limited to some gateways of its namespace, by their service accounts.
func TestASecretIsForTheServiceAccountsThatItNames(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.apply(t, service)
	authority := certtest.NewAuthority(t)
	pair := authority.Issue(nil)
	gate := func(account string) *served.Subscriber {
		t.Helper()
		metadata := &structpb.Struct{Fields: map[string]*structpb.Value{"SERVICE_ACCOUNT": structpb.NewStringValue(account)}}
		s, err := b.Open(t.Context(), &corev3.Node{Id: "router~10.0.0.8~gate.shop~shop.svc.cluster.local", Metadata: metadata}, true)
		require.NoError(t, err)
		t.Cleanup(s.Close)
		return s
	}
	put := func(secret *mcpv1.Secret) {
		r := &kinds.Resource{Kind: kinds.Secret, Namespace: "shop", Name: "gate", Spec: kinds.SpecOf(secret)}
		b.push([]kinds.Change{{Key: r.Key(), Resource: r}})
	}
	front, back, unknown := gate("front"), gate("back"), gate("")
	put(&mcpv1.Secret{Type: "kubernetes.io/tls", Data: map[string][]byte{"tls.crt": pair.Cert, "tls.key": pair.Key}})
	for _, s := range []*served.Subscriber{front, back, unknown} {
		require.Contains(t, secretNames(s), "kubernetes://gate")
	}
	put(&mcpv1.Secret{Type: "kubernetes.io/tls", Data: map[string][]byte{"tls.crt": pair.Cert, "tls.key": pair.Key}, ServiceAccounts: []string{"front", "other"}})
	require.Contains(t, secretNames(front), "kubernetes://gate")
	require.Empty(t, secretNames(back))
	require.Empty(t, secretNames(unknown))

	reason, hint := b.mesh.WhyNot(&mesh.Proxy{Type: mesh.Router, Namespace: "shop", ServiceAccount: "back"}, "kubernetes://gate")
	require.Equal(t, "forbidden", reason)
	require.Equal(t, `the secret shop/gate is for gateways of the service accounts front, other, and this one's is "back"`, hint)

	broken := mismatched(t, authority)
	broken.ServiceAccounts = []string{"back"}
	put(broken)
	require.Empty(t, secretNames(front), "who may have it counts at once, also where the last good key stays in force")
	require.Contains(t, secretNames(back), "kubernetes://gate")
}

// mismatched is a certificate with the key of another.
func mismatched(t *testing.T, authority *certtest.Authority) *mcpv1.Secret {
	t.Helper()
	one, other := authority.Issue(nil), authority.Issue(nil)
	return &mcpv1.Secret{Type: "kubernetes.io/tls", Data: map[string][]byte{"tls.crt": one.Cert, "tls.key": other.Key}}
}
