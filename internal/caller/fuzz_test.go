package caller

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds"
)

// A rule that parses must mean the same when it is written down and parsed again, and must not
// match the empty identity.
func FuzzParseAllowFile(f *testing.F) {
	f.Add([]byte("spiffe://mesh/discovery\n# nobody else\nspiffe://mesh/ops/*=write:shop;read # but these\n"))
	f.Add([]byte("*=admin\r\n\nspiffe://mesh/ns/*/sa/a=read:a,b/vs,dr;write:*/gateways"))
	f.Add([]byte("anonymous"))
	f.Fuzz(func(t *testing.T, content []byte) {
		list, err := ParseAllowFile(content)
		if err != nil {
			return
		}
		for _, rule := range list {
			require.False(t, rule.Pattern.Matches(""), "%s is nobody", rule.Pattern)
			again, err := ParseRule(rule.Pattern.String() + "=" + strings.Join(Texts(rule.Scopes), ";"))
			require.NoError(t, err)
			require.Equal(t, Texts(rule.Scopes), Texts(again.Scopes))
			for i, scope := range rule.Scopes {
				for _, kind := range kinds.All() {
					require.Equal(t, scope.Allows(Write, "shop", kind), again.Scopes[i].Allows(Write, "shop", kind))
				}
			}
		}
	})
}
