package mesh

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// KeySource is where the keys for tokens are fetched from.
type KeySource struct {
	// URL is the address of the keys.
	URL string
	// Issuer publishes where its keys are (OpenID discovery). It is empty if there is a URL.
	Issuer string
}

// String returns the address that is asked first.
func (s KeySource) String() string { return cmp.Or(s.URL, s.Issuer) }

// Fetched is the result of fetching keys.
type Fetched struct {
	// Keys is a document that Envoy accepts; "" if none was ever fetched, or the last one is too
	// old.
	Keys string
	// Problem says why the last attempt failed; "" if it succeeded.
	Problem string
}

// FetchedKeys has the results by source. A source that is missing was not tried yet. It is never
// changed.
type FetchedKeys map[KeySource]Fetched

// WithKeys returns the same mesh with newly fetched keys.
func (m *Mesh) WithKeys(keys FetchedKeys) *Mesh {
	if m.tokens.sameKeys(keys) {
		return m
	}
	return build(m.from.FromItself(), m, given{keys: keys, trust: m.trust, addresses: m.resolved})
}

// KeySources returns the sources of all keys that the mesh needs, each with the time that an
// attempt may take.
func (m *Mesh) KeySources() map[KeySource]time.Duration { return maps.Clone(m.tokens.sources) }

// sameKeys reports whether the index was made with the same keys.
func (x *tokenIndex) sameKeys(keys FetchedKeys) bool {
	return (x.keys == nil) == (keys == nil) && maps.Equal(x.keys, keys)
}

// KeyProblems lists what is wrong with the keys of rules, such as keys that cannot be fetched.
func (m *Mesh) KeyProblems() (out []Problem) {
	for _, p := range slices.Concat(slices.Collect(maps.Values(m.tokens.byNamespace))...) {
		out = append(out, p.problems...)
	}
	return sorted(out)
}
