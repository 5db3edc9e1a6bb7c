package issue

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/pgmesh/pgmesh/discovery/identity/trust"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/identity/refusal"
	"github.com/pgmesh/pgmesh/identity/webkeys"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// algorithms are those whose signature proves who made it. With others, whoever can check a token
// can make one, or anybody can.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

const (
	// leeway is by how much the clocks of issuers may be wrong.
	leeway = time.Minute
	// largest is a size in bytes that no issuer's token comes near.
	largest = 16 << 10
	// mostTries bounds how many keys are tried for a signature.
	mostTries = 32
)

// webTokens judges JSON web tokens by the rules about issuers.
type webTokens struct {
	fetched func() mesh.FetchedKeys

	mu   sync.Mutex
	sets map[string][]jose.JSONWebKey // by the document that they were read from
}

func newWebTokens(fetched func() mesh.FetchedKeys) *webTokens {
	if fetched == nil {
		fetched = func() mesh.FetchedKeys { return nil }
	}
	return &webTokens{fetched: fetched, sets: map[string][]jose.JSONWebKey{}}
}

// Sources are those of issuers' keys, each with the time that an attempt may take.
func Sources(state *trust.State) map[mesh.KeySource]time.Duration {
	const timeout = 5 * time.Second
	sources := map[mesh.KeySource]time.Duration{}
	for _, rule := range state.Message().GetIssuers() {
		if rule.GetJwks() == "" {
			sources[sourceOf(rule)] = timeout
		}
	}
	return sources
}

// sourceOf is the source of a rule's keys: its own URL, or the issuer.
func sourceOf(rule *identityv1.Issuer) mesh.KeySource {
	if rule.GetJwksUri() != "" {
		return mesh.KeySource{URL: rule.GetJwksUri()}
	}
	return mesh.KeySource{Issuer: rule.GetIssuer()}
}

// judge returns who the bearer of a token is, by the first rule that the token meets. If it meets
// none, the error is from the rule that it came closest to.
func (w *webTokens) judge(state *trust.State, text string, now time.Time) (bearer, error) {
	var token *jwt.JSONWebToken
	err := errors.New("it is too large")
	if len(text) <= largest {
		token, err = jwt.ParseSigned(text, algorithms)
	}
	if err != nil { // the text may repeat what it was given
		return bearer{}, refusal.New(identityv1.Refusal_REFUSAL_JWT_SIGNATURE, "this is no JSON web token that can be checked: "+
			"it has to be signed by RSA, ECDSA or EdDSA, in the compact form")
	}
	var claimed jwt.Claims
	if err := token.UnsafeClaimsWithoutVerification(&claimed); err != nil {
		return bearer{}, refusal.New(identityv1.Refusal_REFUSAL_JWT_SIGNATURE, "the claims of the JSON web token cannot be read")
	}
	closest := refusal.New(identityv1.Refusal_REFUSAL_JWT_ISSUER, "no rule is about JSON web tokens of the issuer %q: mcp-client issuer list tells whose are taken", refusal.Short(claimed.Issuer, 200))
	way := 0
	for _, rule := range rulesFor(state, claimed.Issuer) {
		who, far, err := w.try(state, rule, token, now)
		if err == nil {
			return who, nil
		}
		if far > way {
			closest, way = err, far
		}
	}
	return bearer{}, closest
}

// rulesFor returns the rules about an issuer, sorted by name.
func rulesFor(state *trust.State, issuer string) (rules []*identityv1.Issuer) {
	for _, rule := range state.Message().GetIssuers() {
		if rule.GetIssuer() == issuer && issuer != "" {
			rules = append(rules, rule)
		}
	}
	slices.SortStableFunc(rules, func(a, b *identityv1.Issuer) int { return strings.Compare(a.GetName(), b.GetName()) })
	return rules
}

// try judges a token by one rule, and returns how many of its steps the token passed.
func (w *webTokens) try(state *trust.State, rule *identityv1.Issuer, token *jwt.JSONWebToken, now time.Time) (who bearer, far int, err error) {
	keys, err := w.keys(rule)
	if err != nil {
		return who, 1, err
	}
	var claims jwt.Claims
	all := map[string]any{}
	if !verified(token, keys, &claims, &all) {
		return who, 2, refusal.New(identityv1.Refusal_REFUSAL_JWT_SIGNATURE, "the JSON web token was not signed by any key of %s", rule.GetIssuer())
	}
	for step, check := range []func() error{
		func() error { return checkTimes(&claims, now) },
		func() error { return checkAudience(&claims, rule) },
		func() error { return checkClaims(&claims, all, rule) },
	} {
		if err := check(); err != nil {
			return who, 3 + step, err
		}
	}
	return bearer{
		Workload:  identity.Workload{TrustDomain: state.Domain, Namespace: rule.GetNamespace(), ServiceAccount: rule.GetServiceAccount()},
		enrolment: enrolmentOf(&claims), group: rule.GetWorkloadGroup(),
	}, 0, nil
}

// enrolmentOf names the machine that joins with a token. It is the same for every token of a
// subject, so that a revoked machine stays out.
func enrolmentOf(c *jwt.Claims) string {
	sum := sha256.Sum256([]byte(c.Issuer + "\x00" + c.Subject))
	return "jwt-" + hex.EncodeToString(sum[:16])
}

func checkTimes(c *jwt.Claims, now time.Time) error {
	if c.Expiry == nil {
		return refusal.New(identityv1.Refusal_REFUSAL_JWT_EXPIRED, "the JSON web token says nowhere until when it is valid: it has to have exp")
	}
	switch err := c.ValidateWithLeeway(jwt.Expected{Time: now}, leeway); {
	case errors.Is(err, jwt.ErrExpired):
		return refusal.New(identityv1.Refusal_REFUSAL_JWT_EXPIRED, "the JSON web token has expired at %s, and here it is %s: get a new one from %s",
			stamp(c.Expiry.Time()), stamp(now), c.Issuer)
	case err != nil:
		return refusal.New(identityv1.Refusal_REFUSAL_JWT_EXPIRED, "the JSON web token is not valid yet (nbf, iat), and here it is %s: is a clock wrong?", stamp(now))
	}
	return nil
}

func checkAudience(c *jwt.Claims, rule *identityv1.Issuer) error {
	if len(c.Audience) == 0 {
		return refusal.New(identityv1.Refusal_REFUSAL_JWT_AUDIENCE, "the JSON web token says nowhere whom it is for: it has to have aud, with one of %q", rule.GetAudiences())
	}
	if !slices.ContainsFunc(rule.GetAudiences(), c.Audience.Contains) {
		return refusal.New(identityv1.Refusal_REFUSAL_JWT_AUDIENCE, "the JSON web token is for %q, and has to be for one of %q: have one made for that audience",
			refusal.Short(strings.Join(c.Audience, " "), 200), rule.GetAudiences())
	}
	return nil
}

func checkClaims(c *jwt.Claims, all map[string]any, rule *identityv1.Issuer) error {
	if c.Subject == "" {
		return refusal.New(identityv1.Refusal_REFUSAL_JWT_CLAIMS, "the JSON web token says nowhere of whom it is: it has to have sub")
	}
	for _, path := range sortedKeys(rule.GetClaims()) {
		if !has(all, strings.Split(path, "."), rule.GetClaims()[path]) {
			return refusal.New(identityv1.Refusal_REFUSAL_JWT_CLAIMS, "the claim %s of the JSON web token is not %q, which the rule %s asks for",
				path, rule.GetClaims()[path], rule.GetName())
		}
	}
	return nil
}

// keys returns those that may sign the tokens of a rule.
func (w *webTokens) keys(rule *identityv1.Issuer) ([]jose.JSONWebKey, error) {
	document := rule.GetJwks()
	if document == "" {
		fetched := w.fetched()[sourceOf(rule)]
		if document = fetched.Keys; document == "" {
			return nil, refusal.New(identityv1.Refusal_REFUSAL_UNAVAILABLE, "discovery does not have the keys of %s yet, try again: %s", rule.GetIssuer(),
				orElse(fetched.Problem, "they are being fetched"))
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	keys, known := w.sets[document]
	if !known {
		var err error
		if keys, err = readKeys(document); err != nil {
			return nil, refusal.New(identityv1.Refusal_REFUSAL_JWT_SIGNATURE, "the keys of the rule %s are of no use: %v", rule.GetName(), err)
		}
		const most = 64 // documents: keys change, and old ones need not be kept
		if len(w.sets) >= most {
			clear(w.sets)
		}
		w.sets[document] = keys
	}
	return keys, nil
}

// readKeys reads the public keys of a document. It leaves out symmetric ones: whoever can check
// with them can sign.
func readKeys(document string) (keys []jose.JSONWebKey, err error) {
	set, err := webkeys.Read(document)
	if err != nil {
		return nil, err
	}
	var raw struct{ Keys []json.RawMessage }
	if err := json.Unmarshal([]byte(set.Canonical()), &raw); err != nil {
		return nil, err
	}
	for _, text := range raw.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(text) == nil && key.IsPublic() {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no public key of RSA, ECDSA or EdDSA among them")
	}
	return keys, nil
}

// verified reports whether one of the keys signed the token, and reads its claims.
func verified(token *jwt.JSONWebToken, keys []jose.JSONWebKey, into ...any) bool {
	header := token.Headers[0] // the compact form has one
	tries := 0
	for _, key := range keys {
		if header.KeyID != "" && key.KeyID != "" && header.KeyID != key.KeyID || key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		if tries++; tries > mostTries {
			return false
		}
		if token.Claims(key.Key, into...) == nil {
			return true
		}
	}
	return false
}
