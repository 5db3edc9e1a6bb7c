package e2e

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// signer issues tokens.
type signer struct {
	t      testing.TB
	issuer string
	kid    string
	key    *rsa.PrivateKey
}

func newSigner(t testing.TB, issuer string) *signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	return &signer{t, issuer, fmt.Sprint("key-", key.N.Bit(5), key.N.Uint64()), key}
}

// keys are those that the tokens are checked with.
func (s *signer) keys() string {
	return fmt.Sprintf(`{"keys":[{"kty":"RSA","kid":%q,"alg":"RS256","n":%q,"e":%q}]}`, s.kid,
		base64.RawURLEncoding.EncodeToString(s.key.N.Bytes()), base64.RawURLEncoding.EncodeToString(big.NewInt(int64(s.key.E)).Bytes()))
}

// token has these claims, and the usual ones except those that are nil here.
func (s *signer) token(claims map[string]any) string {
	s.t.Helper()
	all := map[string]any{"iss": s.issuer, "sub": "ada", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	part := func(v any) string {
		text, err := json.Marshal(v)
		require.NoError(s.t, err)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	text := part(map[string]any{"alg": "RS256", "kid": s.kid, "typ": "JWT"}) + "." + part(all)
	digest := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, s.key, crypto.SHA256, digest[:])
	require.NoError(s.t, err)
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// tampered changes a token without signing it again.
func tampered(token string) string {
	parts := strings.Split(token, ".")
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		panic(err)
	}
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(claims), `"ada"`, `"bob"`, 1)))
	return strings.Join(parts, ".")
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// tokenControl is a control plane that may fetch keys from this machine, and does so often.
func tokenControl(t testing.TB) (m *mesh) {
	t.Helper()
	database := pgtest.New(t)
	control := newStack(t, database)
	control.DiscoveryFlags("--jwks-allow-addresses", "127.0.0.0/8", "--jwks-refresh", "50ms", "--jwks-retry", "10ms")
	require.NoError(t, control.Start(t.Context()))
	return meshWithoutEnvoy(t, control, database)
}

// guardedBackend is an application behind the proxy, on the mesh's port.
func (m *mesh) guardedBackend(rules string) {
	m.t.Helper()
	app := newBackend(m.t, "app", nil)
	m.commit(limits(fmt.Sprintf(`
egress: [{hosts: [~/*]}]
ingress: [{port: {number: %s, name: http, protocol: HTTP}, bind: 127.0.0.1, defaultEndpoint: '127.0.0.1:%s'}]
`, m.port, app.port)), tokenRules("web", rules))
}

func tokenRules(name, rules string) string {
	return fmt.Sprintf("apiVersion: security.istio.io/v1\nkind: RequestAuthentication\nmetadata: {name: %s}\nspec:\n  jwtRules:\n%s\n", name, indent(rules))
}

// is waits until a request has this status.
func (m *mesh) is(status int, r request) *answer {
	m.t.Helper()
	var last *answer
	eventually(m.t, func(ctx context.Context) error {
		a, err := m.ask(ctx, r)
		if err != nil {
			return err
		}
		if last = a; a.status != status {
			return fmt.Errorf("answered %d, want %d: %q", a.status, status, a.body)
		}
		return nil
	})
	return last
}

func TestTokensAreChecked(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	one, other, stranger := newSigner(t, "https://one.example.com"), newSigner(t, "https://other.example.com"), newSigner(t, "https://one.example.com")
	stranger.kid = one.kid
	m.guardedBackend(fmt.Sprintf(`
- issuer: https://one.example.com
  jwks: '%s'
  audiences: [shop, bank]
  outputPayloadToHeader: x-payload
  outputClaimToHeaders: [{header: x-sub, claim: sub}, {header: x-city, claim: address.city}]
- issuer: https://other.example.com
  jwks: '%s'
  fromHeaders: [{name: x-token, prefix: "Token "}]
  fromParams: [token]
  fromCookies: [session]
  forwardOriginalToken: true
`, one.keys(), other.keys()))
	good := one.token(map[string]any{"aud": []string{"shop"}, "address": map[string]any{"city": "London"}})
	m.is(http.StatusUnauthorized, request{header: bearer(tampered(good))}) // what follows shows that the rules are in force
	without := m.must(request{header: http.Header{"X-Sub": {"bob"}, "X-Payload": {"lies"}}})
	require.NoError(t, without.from("app"), "a request without a token comes in")
	require.Empty(t, without.seen.Header.Get("X-Sub"), "and claims nothing")
	require.Empty(t, without.seen.Header.Get("X-Payload"))

	seen := m.must(request{header: bearer(good)}).seen.Header
	require.Equal(t, "ada", seen.Get("X-Sub"))
	require.Equal(t, "London", seen.Get("X-City"))
	require.Empty(t, seen.Get("Authorization"), "the token itself is not passed on")
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(seen.Get("X-Payload"), "="))
	require.NoError(t, err)
	require.Contains(t, string(payload), "London")

	aud := map[string]any{"aud": "shop"}
	for why, token := range map[string]string{
		"it expired":                      one.token(map[string]any{"aud": "shop", "exp": time.Now().Add(-2 * time.Hour).Unix()}),
		"it is not valid yet":             one.token(map[string]any{"aud": "shop", "nbf": time.Now().Add(2 * time.Hour).Unix()}),
		"it is for others":                one.token(map[string]any{"aud": "elsewhere"}),
		"it is for nobody":                one.token(nil),
		"nobody knows the issuer":         one.token(map[string]any{"aud": "shop", "iss": "https://stranger.example.com"}),
		"somebody else signed it":         stranger.token(aud),
		"it is no token":                  "token",
		"it is not where it should be":    other.token(nil),
		"it is of none, signed by nobody": base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + strings.Split(one.token(aud), ".")[1] + ".",
	} {
		require.Contains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, m.must(request{header: bearer(token)}).status, why)
	}

	elsewhere := other.token(nil)
	for _, r := range []request{
		{header: http.Header{"X-Token": {"Token " + elsewhere}}}, {path: "/?token=" + elsewhere}, {header: http.Header{"Cookie": {"a=b; session=" + elsewhere}}},
	} {
		a := m.must(r)
		require.NoError(t, a.from("app"))
		require.Contains(t, fmt.Sprint(a.seen), elsewhere, "the token is passed on")
	}
	for _, r := range []request{
		{header: http.Header{"X-Token": {"Token " + tampered(elsewhere)}}},
		{path: "/?token=" + tampered(elsewhere)},
		{header: http.Header{"Cookie": {"session=" + tampered(elsewhere)}}},
	} {
		require.Equal(t, http.StatusUnauthorized, m.must(r).status)
	}
	require.NoError(t, m.must(request{header: http.Header{"X-Token": {elsewhere}}}).from("app"), "without the prefix it is no token")

	// AuthorizationPolicies can use claims of tokens.
	m.commit("apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: web}\n" +
		"spec: {rules: [{from: [{source: {requestPrincipals: ['https://one.example.com/ada']}}], when: [{key: 'request.auth.claims[address][city]', values: [London]}]}]}\n")
	m.is(http.StatusForbidden, request{})
	require.NoError(t, m.must(request{header: bearer(good)}).from("app"))
	require.Equal(t, http.StatusForbidden, m.must(request{header: bearer(one.token(aud))}).status, "it claims no city")
	require.Equal(t, http.StatusUnauthorized, m.must(request{header: bearer(tampered(good))}).status)
}

func TestTokensWithoutAnEndAreRefusedOnRequest(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	issuer := newSigner(t, "https://one.example.com")
	rules := fmt.Sprintf("- issuer: https://one.example.com\n  jwks: '%s'\n", issuer.keys())
	m.guardedBackend(rules)
	endless, ends := issuer.token(map[string]any{"exp": nil}), issuer.token(nil)
	m.is(http.StatusUnauthorized, request{header: bearer(tampered(ends))})
	require.NoError(t, m.must(request{header: bearer(endless)}).from("app"), "as with Istio")

	m.commit(strings.Replace(tokenRules("web", rules), "{name: web}", `{name: web, annotations: {mesh.pgmesh.io/require-expiration: "true"}}`, 1))
	m.is(http.StatusUnauthorized, request{header: bearer(endless)})
	require.NoError(t, m.must(request{header: bearer(ends)}).from("app"))
}

// keyServer publishes keys, once it has some.
type keyServer struct {
	*httptest.Server

	keys atomic.Pointer[string]
}

func newKeyServer(t testing.TB) *keyServer {
	t.Helper()
	s := &keyServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys := s.keys.Load()
		switch {
		case keys == nil:
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/.well-known/openid-configuration":
			fmt.Fprintf(w, `{"jwks_uri": "%s/keys"}`, s.URL)
		default:
			fmt.Fprint(w, *keys)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *keyServer) publish(keys string) { s.keys.Store(&keys) }

func TestKeysAreFetchedFromWhereIssuersPublishThem(t *testing.T) {
	t.Parallel()
	m := tokenControl(t)
	m.startAgent()
	server := newKeyServer(t)
	byURL, discovered, written := newSigner(t, "https://one.example.com"), newSigner(t, server.URL), newSigner(t, "https://written.example.com")
	discovered.key, discovered.kid = byURL.key, byURL.kid
	m.guardedBackend(fmt.Sprintf(`
- {issuer: https://one.example.com, jwksUri: "%s/keys"}
- {issuer: "%s"}
- {issuer: https://written.example.com, jwks: '%s'}
`, server.URL, server.URL, written.keys()))

	// Keys that cannot be fetched yet: their tokens are refused, and nothing else is.
	m.is(http.StatusUnauthorized, request{header: bearer(byURL.token(nil))})
	require.Equal(t, http.StatusUnauthorized, m.must(request{header: bearer(discovered.token(nil))}).status)
	require.NoError(t, m.must(request{}).from("app"))
	require.NoError(t, m.must(request{header: bearer(written.token(nil))}).from("app"))
	eventually(t, func(ctx context.Context) error {
		if page := m.problemsPage(ctx); !strings.Contains(page, "keys-missing") || !strings.Contains(page, "the status is 503") {
			return errors.New("the page says nothing of it: " + page)
		}
		return nil
	})

	// They come, and are in force without a change of the mesh. So are the keys that replace them.
	server.publish(byURL.keys())
	m.is(http.StatusOK, request{header: bearer(byURL.token(nil))})
	m.is(http.StatusOK, request{header: bearer(discovered.token(nil))})
	eventually(t, func(ctx context.Context) error {
		if page := m.problemsPage(ctx); strings.Contains(page, "keys-missing") {
			return errors.New("the page still tells of it: " + page)
		}
		return nil
	})
	next := newSigner(t, "https://one.example.com")
	server.publish(next.keys())
	m.is(http.StatusOK, request{header: bearer(next.token(nil))})
	m.is(http.StatusUnauthorized, request{header: bearer(byURL.token(nil))})

	// They go, and the last ones stay in force, even for a rule that is written in another way.
	server.keys.Store(nil)
	eventually(t, func(ctx context.Context) error {
		if page := m.problemsPage(ctx); !strings.Contains(page, "those from before are in force") {
			return errors.New("the page says nothing of it: " + page)
		}
		return nil
	})
	require.NoError(t, m.must(request{header: bearer(next.token(nil))}).from("app"))
}

// problemsPage is discovery's page of problems.
func (m *mesh) problemsPage(ctx context.Context) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.Discovery.HTTP()+"/problems", http.NoBody)
	require.NoError(m.t, err)
	resp, err := m.client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	require.NoError(m.t, err)
	return string(page)
}

func TestAGatewayRoutesByWhatTokensClaim(t *testing.T) {
	t.Parallel()
	m := newGateway(t)
	s, port := newSigner(t, "https://one.example.com"), newPort(t)
	m.commit(m.service("shop.mesh", newBackend(t, "shop", nil)), m.service("admin.mesh", newBackend(t, "admin", nil)), m.service("gold.mesh", newBackend(t, "gold", nil)),
		m.exposing("{port: {number: "+port+", name: http, protocol: HTTP}, hosts: ['*']}"),
		exposed("shop", "shop.example.com", `http:
- match: [{headers: {"@request.auth.claims.groups": {exact: staff}}}]
  route: [{destination: {host: admin.mesh}}]
- match: [{headers: {"@request.auth.claims[https://example.com/tier][name]": {prefix: gold}}}]
  route: [{destination: {host: gold.mesh}}]
- match: [{withoutHeaders: {"@request.auth.claims.sub": {exact: ada}}, uri: {prefix: /mine}}]
  directResponse: {status: 403}
- route: [{destination: {host: shop.mesh}}]`),
		tokenRules("edge", fmt.Sprintf("- {issuer: https://one.example.com, jwks: '%s'}", s.keys())))
	m.port = port
	const host = "shop.example.com"
	m.answers(host, "shop")
	ask := func(path string, claims map[string]any) *answer {
		return m.must(request{host: host, path: path, header: bearer(s.token(claims))})
	}
	require.NoError(t, ask("/", nil).from("shop"))
	require.NoError(t, ask("/", map[string]any{"groups": "staff"}).from("admin"))
	require.NoError(t, ask("/", map[string]any{"groups": []string{"people", "staff"}}).from("admin"), "one of a list will do")
	require.NoError(t, ask("/", map[string]any{"groups": []string{"people"}}).from("shop"))
	require.NoError(t, ask("/", map[string]any{"https://example.com/tier": map[string]any{"name": "gold-1"}}).from("gold"))
	require.NoError(t, ask("/mine", nil).from("shop"))
	require.Equal(t, http.StatusForbidden, ask("/mine", map[string]any{"sub": "bob"}).status)
	require.Equal(t, http.StatusForbidden, m.must(request{host: host, path: "/mine"}).status, "who shows no token claims nothing")
	require.Equal(t, http.StatusUnauthorized,
		m.must(request{host: host, header: bearer(tampered(s.token(map[string]any{"groups": "staff"})))}).status)
}

func TestTokensThatMustBeThere(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	device, user := newSigner(t, "https://device.example.com"), newSigner(t, "https://user.example.com")
	rules := `
- {issuer: "https://device.example.com", presence: REQUIRED, forwardOriginalToken: %t, outputClaimToHeaders: [{header: x-device, claim: sub}], jwks: '%s'}
- {issuer: "https://user.example.com", fromHeaders: [{name: authorization, prefix: "Bearer "}, {name: x-user-token}], outputClaimToHeaders: [{header: x-user, claim: sub}], jwks: '%s'}
`
	of := func(s *signer, name string) string { return s.token(map[string]any{"sub": name}) }
	beside := func(user string) http.Header {
		h := bearer(of(device, "phone"))
		h.Set("X-User-Token", user)
		return h
	}
	for _, forward := range []bool{false, true} {
		m.guardedBackend(fmt.Sprintf(rules, forward, device.keys(), user.keys()))
		m.is(http.StatusUnauthorized, request{}) // what follows shows that the rules are in force
		m.is(http.StatusUnauthorized, request{header: bearer(of(user, "ada"))})
		m.is(http.StatusUnauthorized, request{header: bearer(tampered(device.token(nil)))})
		alone := m.is(http.StatusOK, request{header: bearer(of(device, "phone"))})
		require.Equal(t, "phone", alone.seen.Header.Get("X-Device"), "a token that need not be there may be missing")
		both := m.is(http.StatusOK, request{header: beside(of(user, "ada"))})
		require.Equal(t, []string{"phone", "ada"}, []string{both.seen.Header.Get("X-Device"), both.seen.Header.Get("X-User")}, "both are read")
	}
}
