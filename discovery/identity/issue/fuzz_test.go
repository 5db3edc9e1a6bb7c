package issue

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/identity/trust"
	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/identity/refusal"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// FuzzBearing shows whatever strangers may write into the header authorization. Only a signed
// token, or a whole join token, gets anywhere. No refusal repeats a secret.
func FuzzBearing(f *testing.F) {
	root, err := authority.NewRoot("mesh.example", time.Hour)
	require.NoError(f, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(f, err)
	document, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k"}}})
	require.NoError(f, err)
	state, err := trust.Read(&identityv1.Trust{TrustDomain: "mesh.example", Roots: root.RootsPEM(), Issuers: []*identityv1.Issuer{{
		Name: "cloud", Issuer: "https://cloud.example", Audiences: []string{"pgmesh"}, Jwks: string(document), Namespace: "shop", ServiceAccount: "cart",
		Claims: map[string]string{"a.b": "c"},
	}}})
	require.NoError(f, err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
	require.NoError(f, err)
	signed := func(claims string) string {
		s, err := signer.Sign([]byte(claims))
		require.NoError(f, err)
		text, err := s.CompactSerialize()
		require.NoError(f, err)
		return text
	}
	good := signed(`{"iss":"https://cloud.example","sub":"7","aud":"pgmesh","exp":9999999999,"a":{"b":["c"]}}`)
	bad := signed(`{"iss":"https://cloud.example","sub":"8","aud":["pgmesh"],"exp":1,"a.b":"c"}`)
	token, err := jointoken.New(root.Root())
	require.NoError(f, err)
	for _, seed := range []string{
		"", "Bearer", "Bearer x", "bearer " + good, "Bearer " + bad, "Bearer " + good[:len(good)-3], "Bearer " + token.Text(), "Basic " + token.Text(),
		"Bearer " + good + ", Bearer " + good, "Bearer eyJhbGciOiJub25lIn0.e30.", "Bearer a.b.c", "Bearer \xff.\xff.\xff",
	} {
		f.Add(seed)
	}
	s := New(Config{Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()})
	f.Fuzz(func(t *testing.T, header string) {
		record := &identityv1.Issue{}
		c, err := s.bearing(state, header, record)
		if err == nil {
			var who bearer
			if who, err = c.redeem(t.Context(), [32]byte{}); err == nil {
				require.Contains(t, header, good[:len(good)-1], "nobody else has the key: %q", header)
				require.Equal(t, "spiffe://mesh.example/ns/shop/sa/cart", who.String())
				require.NotEmpty(t, who.enrolment)
				return
			}
		}
		why, ok := errors.AsType[*refusal.Error](err)
		require.True(t, ok, "%v", err)
		require.True(t, utf8.ValidString(why.Text))
		require.LessOrEqual(t, len(why.Text), 1100)
		require.Len(t, why.GRPCStatus().Details(), 1)
		if _, secret, _ := strings.Cut(header, " "); len(secret) > 60 {
			require.NotContains(t, why.Text, secret)
		}
	})
}

func TestClaims(t *testing.T) {
	t.Parallel()
	var claims map[string]any
	require.NoError(t, json.Unmarshal([]byte(`{
		"a": {"b": "c", "n": 1.5, "yes": true, "none": null, "list": ["x", 2, ["nested"]]},
		"kubernetes.io": {"serviceaccount": {"name": "till"}}, "kubernetes": {"io": "other"}, "": "empty"
	}`), &claims))
	for path, values := range map[string][]string{
		"a.b": {"c"}, "a.n": {"1.5"}, "a.yes": {"true"}, "a.list": {"x", "2"}, "kubernetes.io.serviceaccount.name": {"till"}, "kubernetes.io": {"other"}, "": {"empty"},
	} {
		for _, value := range values {
			require.True(t, has(claims, strings.Split(path, "."), value), "%s=%s", path, value)
			require.False(t, has(claims, strings.Split(path, "."), value+"x"), path)
		}
	}
	for _, path := range []string{"a", "a.none", "a.b.c", "b", "a.list.0", "a..b"} {
		for _, value := range []string{"", "null", "c", "x", "nested", "map[]"} {
			require.False(t, has(claims, strings.Split(path, "."), value) && path != "a.list", "%s=%s", path, value)
		}
	}
	require.False(t, has(claims, []string{"a", "list"}, "nested"))
}
