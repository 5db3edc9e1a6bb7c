package webkeys_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/identity/webkeys"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
)

func b64(bytes []byte) string { return base64.RawURLEncoding.EncodeToString(bytes) }

func rsaKey(t testing.TB, bits int) string {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, bits)
	require.NoError(t, err)
	return fmt.Sprintf(`{"kty":"RSA","kid":"rsa","alg":"RS256","use":"sig","n":%q,"e":"AQAB"}`, b64(k.N.Bytes()))
}

// modulus is an odd number of so many bits, which nobody has the factors of.
func modulus(bits int) string {
	n := new(big.Int).SetBit(big.NewInt(12345), bits-1, 1)
	return fmt.Sprintf(`{"kty":"RSA","n":%q,"e":"AQAB"}`, b64(n.Bytes()))
}

func ecKey(t testing.TB, c elliptic.Curve, name string) string {
	t.Helper()
	k, err := ecdsa.GenerateKey(c, rand.Reader)
	require.NoError(t, err)
	point, err := k.PublicKey.Bytes()
	require.NoError(t, err)
	half := (len(point) - 1) / 2
	return fmt.Sprintf(`{"kty":"EC","crv":%q,"x":%q,"y":%q}`, name, b64(point[1:1+half]), b64(point[1+half:]))
}

func edKey(t testing.TB) string {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	return fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","x":%q}`, b64(public))
}

const symmetric = `{"kty":"oct","k":"c2VjcmV0","alg":"HS256"}`

func set(keys ...string) string { return `{"keys":[` + strings.Join(keys, ",") + `]}` }

func everyType(t testing.TB) []string {
	t.Helper()
	return []string{
		rsaKey(t, 2048), ecKey(t, elliptic.P256(), "P-256"), ecKey(t, elliptic.P384(), "P-384"), ecKey(t, elliptic.P521(), "P-521"), edKey(t), symmetric,
	}
}

func TestWhatEnvoyTakesStaysAsItIsWritten(t *testing.T) {
	t.Parallel()
	document := " " + set(everyType(t)...) + "\n"
	s, err := webkeys.Read(document)
	require.NoError(t, err)
	require.Empty(t, s.Unusable)
	require.Equal(t, document, s.Text)
	require.Equal(t, 6, s.Keys())
}

func TestKeysThatCannotBeUsedAreLeftOut(t *testing.T) {
	t.Parallel()
	good := edKey(t)
	for key, reason := range map[string]string{
		`5`:                                            `keys[0] is of the type ""`,
		`{"kty":"PEM"}`:                                `keys[0] is of the type "PEM"`,
		`{"kty":"RSA","n":"AQAB"}`:                     `keys[0] has no e`,
		`{"kty":"RSA","n":"a+/b","e":"AQAB"}`:          `keys[0] has no n, or one that is not base64url`,
		`{"kty":"RSA","n":"AQ","e":"AQAB"}`:            `keys[0] has a modulus of 1 bits`,
		modulus(16385):                                 `keys[0] has a modulus of 16385 bits`,
		modulus(1023):                                  `keys[0] has a modulus of 1023 bits`,
		`{"kty":"RSA","n":"AQ","e":"Ag"}`:              `keys[0] has an exponent that is neither 3 nor 65537`,
		`{"kty":"RSA","alg":"ES256"}`:                  `keys[0] is an RSA key for "ES256"`,
		`{"kty":"EC","crv":"P-256","x":"AQ","y":"AQ"}`: `keys[0] is no point of P-256`,
		`{"kty":"EC","crv":"secp256k1"}`:               `keys[0] is on the curve "secp256k1"`,
		`{"kty":"EC","crv":5}`:                         `keys[0] has a crv that is no name of a curve`,
		`{"kty":"EC","crv":"P-256","alg":"ES384"}`:     `keys[0] is on the curve "P-256" and for "ES384"`,
		`{"kty":"OKP","crv":"Ed448","x":"AQ"}`:         `keys[0] is on the curve "Ed448"`,
		`{"kty":"OKP","crv":"Ed25519","x":"AQ"}`:       `keys[0] has an x of 1 bytes`,
		`{"kty":"OKP","alg":"RS256"}`:                  `keys[0] is a key of Edwards curves for "RS256"`,
		`{"kty":"oct","k":""}`:                         `keys[0] has no k`,
		`{"kty":"oct","k":"AQ","alg":"none"}`:          `keys[0] is a symmetric key for "none"`,
	} {
		_, err := webkeys.Read(set(key))
		require.ErrorContains(t, err, "it has no key that can be used: "+reason)
		s, err := webkeys.Read(set(key, good))
		require.NoError(t, err)
		require.Len(t, s.Unusable, 1)
		require.Contains(t, s.Unusable[0], reason)
		require.JSONEq(t, set(good), s.Text)
	}
}

func TestDocumentsThatAreNoSets(t *testing.T) {
	t.Parallel()
	for document, reason := range map[string]string{
		"":                      "no JSON object",
		"[]":                    "no JSON object",
		`{"keys":[]} x`:         "no JSON object",
		`{"keys":[],"keys":[]}`: "no JSON object",
		"{\"keys\":\"\xff\"}":   "no JSON object",
		`{"a":1e999}`:           "no JSON object",
		"{}":                    `no list of "keys"`,
		`{"keys":null}`:         `no list of "keys"`,
		`{"keys":{}}`:           `no list of "keys"`,
		`{"keys":[]}`:           "the list is empty",
		set(strings.Split(strings.Repeat("5,", 9)+"5", ",")...): "and 7 more",
	} {
		_, err := webkeys.Read(document)
		require.ErrorContains(t, err, reason, document)
	}
	many := make([]string, 1001)
	for i := range many {
		many[i] = fmt.Sprintf(`{"kty":"oct","k":"AQ","kid":"%d"}`, i)
	}
	_, err := webkeys.Read(set(many...))
	require.ErrorContains(t, err, "it has 1001 keys, and may have 1000")
}

func TestASingleKeyIsASet(t *testing.T) {
	t.Parallel()
	s, err := webkeys.Read(symmetric)
	require.NoError(t, err)
	require.JSONEq(t, set(symmetric), s.Text)
}

func TestPrivateHalvesGoNowhere(t *testing.T) {
	t.Parallel()
	public := edKey(t)
	s, err := webkeys.Read(set(strings.TrimSuffix(public, "}") + `,"d":"cHJpdmF0ZQ"}`))
	require.NoError(t, err)
	require.JSONEq(t, set(public), s.Text)
}

func TestTheCanonicalFormDependsOnTheKeysAlone(t *testing.T) {
	t.Parallel()
	keys := everyType(t)
	one, err := webkeys.Read(set(keys...))
	require.NoError(t, err)
	keys = append(keys[3:], keys[:4]...) // another order, and one twice
	other, err := webkeys.Read(`{"issued": 7, "keys": [` + strings.Join(keys, " , ") + `]}`)
	require.NoError(t, err)
	require.Equal(t, one.Canonical(), other.Canonical())
	again, err := webkeys.Read(one.Canonical())
	require.NoError(t, err)
	require.Equal(t, one.Canonical(), again.Text)
}

// TestNobodyHasTheKey finds the key again by the recipe that its comment gives.
func TestNobodyHasTheKey(t *testing.T) {
	t.Parallel()
	curve := elliptic.P256().Params()
	for n := 0; ; n++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "pgmesh: nobody has the private half of this key %d", n))
		x := new(big.Int).SetBytes(sum[:])
		square := new(big.Int).Exp(x, big.NewInt(3), curve.P) // y² = x³ - 3x + b
		square.Sub(square, new(big.Int).Mul(big.NewInt(3), x)).Add(square, curve.B).Mod(square, curve.P)
		y := new(big.Int).ModSqrt(square, curve.P)
		if x.Cmp(curve.P) >= 0 || y == nil {
			continue
		}
		if y.Bit(0) == 1 {
			y.Sub(curve.P, y)
		}
		coordinate := func(n *big.Int) string { return b64(n.FillBytes(make([]byte, 32))) }
		require.JSONEq(t, webkeys.Nobodys, set(fmt.Sprintf(`{"alg":"ES256","crv":"P-256","kty":"EC","x":%q,"y":%q}`, coordinate(x), coordinate(y))))
		break
	}
	s, err := webkeys.Read(webkeys.Nobodys)
	require.NoError(t, err)
	require.JSONEq(t, webkeys.Nobodys, s.Text)
}

// TestEnvoyTakesWhatIsRead has the real Envoy check sets at the edges of what is taken here, each
// alone, so that each has to be usable: as they are written, and in the canonical form.
func TestEnvoyTakesWhatIsRead(t *testing.T) {
	t.Parallel()
	documents := []string{
		webkeys.Nobodys, set(modulus(1024)), set(modulus(16384)), set(`{"kty":"RSA","n":` + quotedModulus(2048) + `,"e":"Aw"}`),
		set(`{"kty":"RSA","n":` + quotedModulus(2048) + `,"e":"AAEAAQ==","kid":7,"alg":null}`),
		set(strings.Replace(ecKey(t, elliptic.P256(), "P-256"), `"crv":"P-256",`, "", 1)),
		set(strings.Replace(ecKey(t, elliptic.P384(), "P-384"), `"crv":"P-384"`, `"alg":"ES384"`, 1)),
		set(symmetric, "null", "5", `[]`), symmetric, `{"keys":[` + symmetric + `],"more":{"a":[[[1e300,"\ud83d\ude00","\u0000"]]]}}`,
		`{"keys":[{"kty":"oct","k":"AQ","kid":"\u0000\u2028<é"}]}`,
		`{"keys":[` + symmetric + `],"deep":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`,
	}
	for _, key := range everyType(t) {
		documents = append(documents, set(key))
	}
	var texts []string
	for _, document := range documents {
		s, err := webkeys.Read(document)
		require.NoError(t, err, document)
		texts = append(texts, s.Text, s.Canonical())
	}
	envoytest.Validate(t, checking(t, texts))
}

func quotedModulus(bits int) string {
	var k struct{ N string }
	if err := json.Unmarshal([]byte(modulus(bits)), &k); err != nil {
		panic(err)
	}
	return fmt.Sprintf("%q", k.N)
}

// checking is a bootstrap whose listener checks tokens by each of the sets.
func checking(t testing.TB, texts []string) *bootstrapv3.Bootstrap {
	t.Helper()
	config := &jwtv3.JwtAuthentication{Providers: map[string]*jwtv3.JwtProvider{}}
	for i, text := range texts {
		config.Providers[fmt.Sprint(i)] = &jwtv3.JwtProvider{JwksSourceSpecifier: &jwtv3.JwtProvider_LocalJwks{
			LocalJwks: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}},
		}}
	}
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix: "test", RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{}},
		HttpFilters: []*hcmv3.HttpFilter{
			{Name: "jwt", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(t, config)}},
			{Name: "router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(t, &routerv3.Router{})}},
		},
	}
	return &bootstrapv3.Bootstrap{StaticResources: &bootstrapv3.Bootstrap_StaticResources{Listeners: []*listenerv3.Listener{{
		Name: "test",
		Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 0},
		}}},
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name: "http", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(t, manager)},
		}}}},
	}}}}
}

func pack(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	packed, err := anypb.New(m)
	require.NoError(t, err)
	return packed
}
