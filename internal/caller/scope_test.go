package caller_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/kinds"
)

func kind(t *testing.T, word string) *kinds.Kind {
	t.Helper()
	k, err := kinds.ByName(word)
	require.NoError(t, err)
	return k
}

func TestScopesHaveACanonicalForm(t *testing.T) {
	t.Parallel()
	for text, written := range map[string]string{
		"read":               "read",
		"admin":              "admin",
		"sign":               "sign",
		"write:*":            "write",
		"write:*:*":          "write",
		"write:shop,cart":    "write:cart,shop",
		"write:shop,shop":    "write:shop",
		"write:-":            "write:-",
		"write:-,shop":       "write:-,shop",
		"read:shop:vs,dr,vs": "read:shop:DestinationRule,VirtualService",
		"read:*:gateways":    "read:*:Gateway",
		"read:*:gateways.gateway.networking.k8s.io": "read:*:Gateway.gateway.networking.k8s.io",
	} {
		s, err := caller.ParseScope(text)
		require.NoError(t, err, text)
		require.Equal(t, written, s.String(), text)
		again, err := caller.ParseScope(written)
		require.NoError(t, err, written)
		require.Equal(t, s, again, text)
	}
}

func TestInvalidScopesAreRefused(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"":                `scope "": "" is not what one may do`,
		"delete:shop":     `"delete" is not what one may do; write read, write, secrets, sign, register or admin`,
		"sign:shop":       `for the whole mesh; write sign alone`,
		"register:shop":   `for the whole mesh; write register alone`,
		"write:":          `"" is not a namespace`,
		"write:Shop":      `"Shop" is not a namespace`,
		"write:shop,*":    `or * alone for all`,
		"write:a:b:c":     `there is something after the kinds`,
		"admin:shop":      `an administrator is one of the whole mesh; write admin alone, or write:shop`,
		"read:shop:route": `unknown kind "route"`,
		"read:shop:":      `unknown kind ""`,
	} {
		_, err := caller.ParseScope(text)
		require.ErrorContains(t, err, says, text)
	}
}

func TestScopeAllows(t *testing.T) {
	t.Parallel()
	vs, dr, class, config := kind(t, "vs"), kind(t, "dr"), kind(t, "gatewayclass"), kind(t, "meshconfig")
	for _, c := range []struct {
		scope     string
		verb      caller.Verb
		namespace string
		kind      *kinds.Kind
		allowed   bool
	}{
		{"read", caller.Read, "shop", vs, true},
		{"read", caller.Write, "shop", vs, false},
		{"write", caller.Read, "shop", vs, true},
		{"write", caller.Write, "", class, true},
		{"write", caller.Admin, "shop", vs, false},
		{"admin", caller.Write, "shop", vs, true},
		{"read:shop", caller.Read, "shop", vs, true},
		{"read:shop", caller.Read, "cart", vs, false},
		{"read:shop", caller.Read, "", class, true},              // what belongs to no namespace concerns all
		{"read:shop", caller.Read, "istio-system", config, true}, // and so does this, wherever it is
		{"read:shop:vs", caller.Read, "", class, false},
		{"write:shop", caller.Write, "", class, false},
		{"write:-", caller.Write, "", class, true},
		{"write:-", caller.Read, "shop", vs, false},
		{"write:shop:vs", caller.Write, "shop", vs, true},
		{"write:shop:vs", caller.Write, "shop", dr, false},
		{"write:shop:vs", caller.Read, "shop", dr, false},
	} {
		s, err := caller.ParseScope(c.scope)
		require.NoError(t, err)
		require.Equal(t, c.allowed, s.Allows(c.verb, c.namespace, c.kind), "%s of %s %s by %s", c.verb, c.kind, c.namespace, c.scope)
	}
}

func TestNilCallerMayDoNothing(t *testing.T) {
	t.Parallel()
	who := caller.From(t.Context())
	require.False(t, who.May(caller.Read, "shop", kind(t, "vs")))
	require.False(t, who.Unlimited(caller.Read))
	require.EqualError(t, who.Require(caller.Read, "shop", kind(t, "vs")),
		`a caller that nobody knows may not read VirtualService in the namespace "shop": it may do nothing`)
	require.Error(t, who.End(nil))
}
