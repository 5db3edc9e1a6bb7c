package mesh

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// KeySource is where the keys that tokens are signed with are fetched from.
type KeySource struct {
	// URL has the keys.
	URL string
	// Issuer tells where its keys are (OpenID discovery); it is empty where there is a URL.
	Issuer string
}

// String is the address that is asked first.
func (s KeySource) String() string { return cmp.Or(s.URL, s.Issuer) }

// Fetched is what has come of fetching the keys of a source.
type Fetched struct {
	// Keys is a document that Envoy takes; "" where none was ever had, or what was had is too old.
	Keys string
	// Problem is why the last attempt failed; "" if it did not.
	Problem string
}

// FetchedKeys are what was fetched, by its source. Sources that are not in it were not tried yet. It is never changed.
type FetchedKeys map[KeySource]Fetched

// WithKeys is the same mesh with what has been fetched since.
func (m *Mesh) WithKeys(keys FetchedKeys) *Mesh {
	if m.tokens.sameKeys(keys) {
		return m
	}
	return build(m.from.FromItself(), m, given{keys: keys, trust: m.trust})
}

// KeySources are those that the mesh needs the keys of, each with the time that an attempt may take.
func (m *Mesh) KeySources() map[KeySource]time.Duration { return maps.Clone(m.tokens.sources) }

// sameKeys tells whether the same was fetched.
func (x *tokenIndex) sameKeys(keys FetchedKeys) bool {
	return (x.keys == nil) == (keys == nil) && maps.Equal(x.keys, keys)
}

// KeyProblems tells of keys that are not to be had, at each rule that needs them.
func (m *Mesh) KeyProblems() (out []Problem) {
	for _, p := range slices.Concat(slices.Collect(maps.Values(m.tokens.byNamespace))...) {
		out = append(out, p.problems...)
	}
	slices.SortStableFunc(out, func(a, b Problem) int { return cmp.Compare(a.Of.String(), b.Of.String()) })
	return out
}
