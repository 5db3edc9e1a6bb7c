package mesh

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	security "istio.io/api/security/v1beta1"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/identity/webkeys"
	"github.com/pgmesh/pgmesh/kinds"
)

// TokenRules say how a proxy checks the tokens in requests: the rules of all RequestAuthentications
// for it, sorted by issuer. Two meshes have the same TokenRules exactly if nothing in them changed
// in between.
type TokenRules struct {
	Rules []*TokenRule

	from []*tokenPolicy
}

// TokenRule is about the tokens of one issuer.
type TokenRule struct {
	*security.JWTRule

	// KeySet has the keys that may sign tokens, as a document that Envoy accepts. If none could be
	// fetched, it has one key that nobody signs with: the issuer's tokens are refused, and nothing
	// else is.
	KeySet string
	// Expire refuses tokens that have no expiration time.
	Expire bool
}

// tokenPolicy is a RequestAuthentication with rules.
type tokenPolicy struct {
	resource *kinds.Resource
	spec     *security.RequestAuthentication
	rules    []*TokenRule
	problems []Problem
}

// tokenIndex holds the RequestAuthentications by namespace, the oldest first, without those that
// have no rules.
type tokenIndex struct {
	root        string      // the root namespace
	keys        FetchedKeys // nil if no keys are fetched
	byNamespace map[string][]*tokenPolicy
	byKey       map[kinds.Key]*tokenPolicy
	sources     map[KeySource]time.Duration // those of all rules, with the longest time for an attempt
	// chooses encodes which policies there are and which proxies they choose.
	chooses []string
}

// buildTokens indexes the policies about tokens. A policy whose rules and keys did not change stays
// the same pointer, so that proxies' TokenRules do, too.
func buildTokens(now configstore.Step, prev *Mesh, root string, keys FetchedKeys) *tokenIndex {
	before := prev.tokens
	if before != nil && before.root == root && prev.unchanged(now, kindRequestAuthentication) && before.sameKeys(keys) {
		return before
	}
	if before == nil {
		before = &tokenIndex{}
	}
	x := &tokenIndex{
		root: root, keys: keys, byNamespace: map[string][]*tokenPolicy{}, byKey: map[kinds.Key]*tokenPolicy{}, sources: map[KeySource]time.Duration{},
	}
	for r := range now.Of(kindRequestAuthentication) {
		if len(specOf[*security.RequestAuthentication](r).GetJwtRules()) > 0 {
			x.add(r, before.byKey[r.Key()])
		}
	}
	return x
}

// add adds a policy. Before is what the index before had under its key; it is kept if nothing
// changed.
func (x *tokenIndex) add(r *kinds.Resource, before *tokenPolicy) {
	p := x.read(r, before)
	if before != nil && before.resource == r && slices.EqualFunc(p.rules, before.rules, (*TokenRule).same) && slices.Equal(p.problems, before.problems) {
		p = before
	}
	x.byNamespace[r.Namespace] = append(x.byNamespace[r.Namespace], p)
	x.byKey[r.Key()] = p
	x.chooses = append(x.chooses, p.attachment().encode())
}

func (r *TokenRule) same(other *TokenRule) bool {
	return r.JWTRule == other.JWTRule && r.KeySet == other.KeySet && r.Expire == other.Expire
}

// read reads a policy. Before is an earlier version of it, or nil.
func (x *tokenIndex) read(r *kinds.Resource, before *tokenPolicy) *tokenPolicy {
	p := &tokenPolicy{resource: r, spec: specOf[*security.RequestAuthentication](r)}
	expire := p.demandsExpiration()
	for i, spec := range p.spec.GetJwtRules() {
		rule := &TokenRule{JWTRule: spec, Expire: expire}
		path := fmt.Sprintf("spec.jwtRules[%d]", i)
		if spec.GetJwks() != "" {
			p.writtenKeys(rule, path+".jwks", before)
		} else {
			x.fetchedKeys(p, rule, path, before)
		}
		p.rules = append(p.rules, rule)
	}
	return p
}

// expirationAnnotation makes a policy refuse tokens without an expiration time. Istio's API has no
// field for it.
const expirationAnnotation = "mesh.pgmesh.io/require-expiration"

func (p *tokenPolicy) demandsExpiration() bool {
	text, said := p.resource.Annotations[expirationAnnotation]
	if !said {
		return false
	}
	demands, err := strconv.ParseBool(text)
	if err != nil {
		p.problem("metadata.annotations", fmt.Sprintf("%s: %q is neither true nor false, so tokens that never end are refused. Write \"true\", or remove the annotation", expirationAnnotation, text))
		return true
	}
	return demands
}

// writtenKeys reads the keys that are written in the rule.
func (p *tokenPolicy) writtenKeys(rule *TokenRule, path string, before *tokenPolicy) {
	if i := before.ruleOf(rule.JWTRule); i >= 0 { // reading keys takes time
		rule.KeySet = before.rules[i].KeySet
		for _, problem := range before.problems {
			if problem.Path == path {
				p.problems = append(p.problems, problem)
			}
		}
		return
	}
	set, err := webkeys.Read(rule.GetJwks())
	if err != nil {
		rule.KeySet = webkeys.Nobodys
		p.problem(path, fmt.Sprintf("cannot be used: %v. Tokens of %q are refused: write a set of keys", err, rule.GetIssuer()))
		return
	}
	rule.KeySet = set.Text
	for _, reason := range set.Unusable {
		p.problem(path, reason+": it is left out, and the other keys are used")
	}
}

// ruleOf finds the very same rule in a policy, which may be nil.
func (p *tokenPolicy) ruleOf(spec *security.JWTRule) int {
	if p == nil {
		return -1
	}
	return slices.IndexFunc(p.rules, func(r *TokenRule) bool { return r.JWTRule == spec })
}

// Bounds and default of the time that an attempt to fetch keys may take.
const (
	leastTimeout   = 100 * time.Millisecond
	defaultTimeout = 5 * time.Second
	mostTimeout    = time.Minute
)

// fetchedKeys takes the keys that the issuer publishes.
func (x *tokenIndex) fetchedKeys(p *tokenPolicy, rule *TokenRule, path string, before *tokenPolicy) {
	source := sourceOf(rule.JWTRule)
	timeout := defaultTimeout
	if rule.GetTimeout() != nil {
		timeout = min(max(rule.GetTimeout().AsDuration(), leastTimeout), mostTimeout)
	}
	x.sources[source] = max(x.sources[source], timeout)
	fetched, tried := x.keys[source]
	switch {
	case fetched.Keys != "":
		rule.KeySet = fetched.Keys
	case !tried:
		rule.KeySet = x.meanwhile(rule, before)
	default:
		rule.KeySet = webkeys.Nobodys
	}
	at, consequence := path+".jwksUri", "those from before are in force"
	if source.URL == "" {
		at = path + ".issuer"
	}
	if fetched.Keys == "" {
		consequence = fmt.Sprintf("tokens of %q are refused until it succeeds", rule.GetIssuer())
	}
	if fetched.Problem != "" {
		p.problem(at, fmt.Sprintf("the keys cannot be fetched: %s. It is tried again, and %s", fetched.Problem, consequence))
	}
}

// meanwhile returns the keys of a rule whose source was not tried yet: those that the policy had
// for the same issuer and audiences so far. Otherwise tokens would be refused just because a rule
// names the source of its keys in another way.
func (x *tokenIndex) meanwhile(rule *TokenRule, before *tokenPolicy) string {
	if x.keys != nil && before != nil {
		for _, old := range before.rules {
			if old.GetIssuer() == rule.GetIssuer() && slices.Equal(old.GetAudiences(), rule.GetAudiences()) {
				return old.KeySet
			}
		}
	}
	return webkeys.Nobodys
}

func sourceOf(rule *security.JWTRule) KeySource {
	if rule.GetJwksUri() != "" {
		return KeySource{URL: rule.GetJwksUri()}
	}
	return KeySource{Issuer: rule.GetIssuer()}
}

func (p *tokenPolicy) problem(path, reason string) {
	p.problems = append(p.problems, Problem{Of: p.resource.Key(), Path: path, Reason: reason})
}

// attachment says which proxies of its namespace, or of the root namespace, the policy is for.
func (p *tokenPolicy) attachment() attachment {
	return attachment{of: p.resource, selector: p.spec.GetSelector(), targets: targetsOrOne(p.spec.GetTargetRefs(), p.spec.GetTargetRef())}
}

// tokenPolicies are those for a proxy: of its namespace, then of the root namespace, the oldest
// first.
func (m *Mesh) tokenPolicies(p *Proxy) (out []*tokenPolicy) {
	if len(m.tokens.byKey) == 0 {
		return nil
	}
	p = m.Known(p)
	for _, namespace := range slices.Compact([]string{p.Namespace, m.tokens.root}) {
		for _, policy := range m.tokens.byNamespace[namespace] {
			if policy.attachment().isFor(p) {
				out = append(out, policy)
			}
		}
	}
	return out
}

// TokenPolicies are the RequestAuthentications with rules for a proxy, as they are written: of its namespace, then of the
// root namespace, the oldest first.
func (m *Mesh) TokenPolicies(p *Proxy) (out []*kinds.Resource) {
	for _, policy := range m.tokenPolicies(p) {
		out = append(out, policy.resource)
	}
	return out
}

// TokenRules returns the rules for requests to a proxy; nil if there are none.
func (m *Mesh) TokenRules(p *Proxy) *TokenRules {
	policies := m.tokenPolicies(p)
	if len(policies) == 0 {
		return nil
	}
	key := encodeTokens(policies)
	return m.tokenRules.get(key, func() *TokenRules {
		rules := m.memory.tokens.get(key)
		if rules == nil || !slices.Equal(rules.from, policies) {
			rules = gatherRules(policies)
		}
		m.memory.tokens.keep(key, rules, m.build)
		return rules
	})
}

func gatherRules(policies []*tokenPolicy) *TokenRules {
	out := &TokenRules{from: policies}
	for _, p := range policies {
		out.Rules = append(out.Rules, p.rules...)
	}
	slices.SortStableFunc(out.Rules, func(a, b *TokenRule) int { return cmp.Compare(a.GetIssuer(), b.GetIssuer()) })
	return out
}

// encodeTokens names policies.
func encodeTokens(policies []*tokenPolicy) string {
	var b strings.Builder
	for _, p := range policies {
		b.WriteString("," + p.resource.Namespace + "/" + p.resource.Name)
	}
	return b.String()
}
