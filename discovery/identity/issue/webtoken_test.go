package issue_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/identity"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

const issuer = "https://cloud.example"

// signer is an issuer's key.
type signer struct {
	jose.Signer

	public jose.JSONWebKey
}

func newSigner(t testing.TB, alg jose.SignatureAlgorithm, kid string) *signer {
	t.Helper()
	var private, public any
	if strings.HasPrefix(string(alg), "RS") {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		require.NoError(t, err)
		private, public = key, key.Public()
	} else {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		private, public = key, key.Public()
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: private, KeyID: kid}}, nil)
	require.NoError(t, err)
	return &signer{s, jose.JSONWebKey{Key: public, KeyID: kid, Algorithm: string(alg)}}
}

// document has the public halves of keys.
func document(t testing.TB, keys ...jose.JSONWebKey) string {
	t.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	require.NoError(t, err)
	return string(text)
}

type claims map[string]any

// good are claims that the rule of these tests accepts.
func good() claims {
	return claims{
		"iss": issuer, "sub": "instance-7", "aud": []string{"pgmesh", "other"}, "exp": time.Now().Add(time.Hour).Unix(),
		"cloud.example": claims{"zone": "eu-1", "spot": true, "tags": []string{"web", "cart"}, "slot": 7},
	}
}

func with(name string, value any) claims {
	c := good()
	if c[name] = value; value == nil {
		delete(c, name)
	}
	return c
}

func (s *signer) token(t testing.TB, c claims) string {
	t.Helper()
	text, err := json.Marshal(c)
	require.NoError(t, err)
	signed, err := s.Sign(text)
	require.NoError(t, err)
	compact, err := signed.CompactSerialize()
	require.NoError(t, err)
	return compact
}

// by makes a token that is signed with a secret, or not signed.
func by(t testing.TB, alg string, secret []byte, c claims) string {
	t.Helper()
	if alg != "none" {
		s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(alg), Key: secret}, nil)
		require.NoError(t, err)
		return (&signer{Signer: s}).token(t, c)
	}
	text, err := json.Marshal(c)
	require.NoError(t, err)
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString(text) + "."
}

// rule says whose tokens are accepted in these tests.
func rule(keys string) *identityv1.Issuer {
	return &identityv1.Issuer{
		Name: "cloud", Issuer: issuer, Audiences: []string{"pgmesh"}, Jwks: keys,
		Claims:    map[string]string{"cloud.example.zone": "eu-1", "cloud.example.spot": "true", "cloud.example.tags": "cart", "cloud.example.slot": "7"},
		Namespace: "shop", ServiceAccount: "cart",
	}
}

// symmetric is a key that proves nothing, because it is published.
const symmetric = `{"kty":"oct","k":"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0MTI","alg":"HS256","kid":"hmac"}`

func TestMachinesJoinWithWebTokens(t *testing.T) {
	t.Parallel()
	ec, rs, foreign := newSigner(t, jose.ES256, "one"), newSigner(t, jose.RS256, ""), newSigner(t, jose.ES256, "one")
	f := start(t, nil)
	keys := strings.Replace(document(t, ec.public, rs.public), `{"keys":[`, `{"keys":[`+symmetric+`,`, 1)
	f.tell(func(told *identityv1.Trust) { told.Issuers = []*identityv1.Issuer{rule(keys)} })
	enrolments := map[string]bool{}
	for name, token := range map[string]string{
		"ECDSA":              ec.token(t, good()),
		"RSA, without a kid": rs.token(t, good()),
		"one audience":       ec.token(t, with("aud", "pgmesh")),
		"a clock that is half a minute ahead, and of an issuer that is behind": ec.token(t, with("exp", time.Now().Add(-30*time.Second).Unix())),
	} {
		m := f.machine()
		require.NoError(t, m.Join(t.Context(), token), name)
		require.Equal(t, "spiffe://mesh.example/ns/shop/sa/cart", m.Certificate.Leaf.URIs[0].String(), name)
		enrolments[identity.EnrolmentOf(m.Certificate.Leaf)] = true
	}
	require.Len(t, enrolments, 1, "a subject of an issuer is one machine")
	another := f.machine()
	require.NoError(t, another.Join(t.Context(), ec.token(t, with("sub", "instance-8"))))
	require.False(t, enrolments[identity.EnrolmentOf(another.Certificate.Leaf)])

	late := with("nbf", time.Now().Add(time.Hour).Unix())
	other := maps.Clone(good())
	other["cloud.example"] = claims{"zone": "us-1", "spot": true, "tags": []string{"cart"}, "slot": 7}
	public, err := x509.MarshalPKIXPublicKey(rs.public.Key)
	require.NoError(t, err)
	signed := ec.token(t, good())
	parts := strings.Split(signed, ".")
	forged, err := json.Marshal(with("sub", "instance-9"))
	require.NoError(t, err)
	secret, err := base64.RawURLEncoding.DecodeString("c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0MTI")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		token  string
		reason identityv1.Refusal
		says   string
	}{
		"tampered":                   {parts[0] + "." + base64.RawURLEncoding.EncodeToString(forged) + "." + parts[2], identityv1.Refusal_REFUSAL_JWT_SIGNATURE, "was not signed by any key of " + issuer},
		"another's key":              {foreign.token(t, good()), identityv1.Refusal_REFUSAL_JWT_SIGNATURE, "was not signed by any key of"},
		"no signature":               {by(t, "none", nil, good()), identityv1.Refusal_REFUSAL_JWT_SIGNATURE, "no JSON web token that can be checked"},
		"a secret that is published": {by(t, "HS256", secret, good()), identityv1.Refusal_REFUSAL_JWT_SIGNATURE, "no JSON web token that can be checked"},
		"a public key as a secret":   {by(t, "HS256", public, good()), identityv1.Refusal_REFUSAL_JWT_SIGNATURE, "no JSON web token that can be checked"},
		"nobody's":                   {ec.token(t, with("iss", "https://evil.example")), identityv1.Refusal_REFUSAL_JWT_ISSUER, `no rule is about JSON web tokens of the issuer "https://evil.example"`},
		"of no issuer":               {ec.token(t, with("iss", nil)), identityv1.Refusal_REFUSAL_JWT_ISSUER, `no rule is about`},
		"expired":                    {ec.token(t, with("exp", time.Now().Add(-2*time.Minute).Unix())), identityv1.Refusal_REFUSAL_JWT_EXPIRED, "has expired at"},
		"for ever":                   {ec.token(t, with("exp", nil)), identityv1.Refusal_REFUSAL_JWT_EXPIRED, "it has to have exp"},
		"not yet":                    {ec.token(t, late), identityv1.Refusal_REFUSAL_JWT_EXPIRED, "is not valid yet"},
		"for others":                 {ec.token(t, with("aud", "vault")), identityv1.Refusal_REFUSAL_JWT_AUDIENCE, `is for "vault", and has to be for one of ["pgmesh"]`},
		"for nobody":                 {ec.token(t, with("aud", nil)), identityv1.Refusal_REFUSAL_JWT_AUDIENCE, "it has to have aud"},
		"of nobody":                  {ec.token(t, with("sub", nil)), identityv1.Refusal_REFUSAL_JWT_CLAIMS, "it has to have sub"},
		"elsewhere":                  {ec.token(t, other), identityv1.Refusal_REFUSAL_JWT_CLAIMS, `the claim cloud.example.zone of the JSON web token is not "eu-1", which the rule cloud asks for`},
		"without the claim":          {ec.token(t, with("cloud.example", nil)), identityv1.Refusal_REFUSAL_JWT_CLAIMS, "the claim cloud.example.slot"},
		"of a strange shape":         {ec.token(t, with("cloud.example", []any{"zone"})), identityv1.Refusal_REFUSAL_JWT_CLAIMS, "the claim"},
		"no token":                   {"a.b.c", identityv1.Refusal_REFUSAL_JWT_SIGNATURE, "no JSON web token that can be checked"},
		"too large":                  {ec.token(t, with("x", strings.Repeat("x", 20<<10))), identityv1.Refusal_REFUSAL_JWT_SIGNATURE, "no JSON web token that can be checked"},
	} {
		f.refuses(name, f.machine(), c.token, c.reason, c.says)
	}
}

// Of several rules for an issuer, the first that a token meets counts, sorted by name.
func TestTheFirstRuleThatFitsCounts(t *testing.T) {
	t.Parallel()
	key := newSigner(t, jose.ES256, "k")
	f := start(t, nil)
	rules := func(told *identityv1.Trust) {
		for _, name := range []string{"c", "a", "b"} {
			r := rule(document(t, key.public))
			r.Name, r.ServiceAccount = name, "account-"+name
			r.Claims = map[string]string{"sub": "instance-" + name}
			told.Issuers = append(told.Issuers, r)
		}
		told.Issuers[0].Claims = nil
	}
	f.tell(rules)
	for sub, account := range map[string]string{"instance-a": "account-a", "instance-b": "account-b", "instance-x": "account-c"} {
		m := f.machine()
		require.NoError(t, m.Join(t.Context(), key.token(t, with("sub", sub))))
		require.Equal(t, "/ns/shop/sa/"+account, m.Certificate.Leaf.URIs[0].Path)
	}
}

// A revoked machine cannot join again with another token of the same subject.
func TestARevokedMachineDoesNotJoinAgainWithAWebToken(t *testing.T) {
	t.Parallel()
	key := newSigner(t, jose.ES256, "k")
	f := start(t, nil)
	f.tell(func(told *identityv1.Trust) { told.Issuers = []*identityv1.Issuer{rule(document(t, key.public))} })
	m := f.machine()
	require.NoError(t, m.Join(t.Context(), key.token(t, good())))
	enrolment := identity.EnrolmentOf(m.Certificate.Leaf)
	f.tell(func(told *identityv1.Trust) { told.Revoked = []*identityv1.Revocation{{Enrolment: enrolment}} })
	f.refuses("revoked", f.machine(), key.token(t, with("jti", "another")), identityv1.Refusal_REFUSAL_REVOKED, "the machine "+enrolment+" was revoked")
}

// Keys are fetched from where the rule, or the issuer, says, if discovery may connect there.
func TestKeysOfIssuersAreFetched(t *testing.T) {
	t.Parallel()
	key := newSigner(t, jose.ES256, "k")
	var web *httptest.Server
	web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/openid-configuration") {
			fmt.Fprintf(w, `{"jwks_uri": "%s/keys"}`, web.URL)
			return
		}
		fmt.Fprint(w, document(t, key.public))
	}))
	t.Cleanup(web.Close)
	f := start(t, []string{"127.0.0.0/8"})
	byURL, byIssuer := rule(""), rule("")
	byURL.JwksUri = web.URL + "/keys"
	byIssuer.Name, byIssuer.Issuer = "discovered", web.URL
	f.tell(func(told *identityv1.Trust) { told.Issuers = []*identityv1.Issuer{byURL, byIssuer} })
	for _, iss := range []string{issuer, web.URL} {
		m := f.machine()
		require.Eventually(t, func() bool {
			err := m.Join(t.Context(), key.token(t, with("iss", iss)))
			if err != nil {
				require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
				require.ErrorContains(t, err, "discovery does not have the keys of "+iss)
			}
			return err == nil
		}, limit, 10*time.Millisecond)
	}

	elsewhere := start(t, nil)
	elsewhere.tell(func(told *identityv1.Trust) { told.Issuers = []*identityv1.Issuer{byURL} })
	require.Eventually(t, func() bool {
		err := elsewhere.machine().Join(t.Context(), key.token(t, good()))
		return err != nil && strings.Contains(err.Error(), "where keys are not fetched from unless --jwks-allow-addresses has it")
	}, limit, 10*time.Millisecond)
}
