package attack

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// Envoy refuses a whole response for one regular expression that it cannot compile. The database
// accepts some of those.
func TestATenantsRegularExpressionsHurtNobody(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	b := newBystander(m)
	evil := m.tenant("evil", "evil")
	taken := 0
	for i, expression := range []string{`\p{Foo}`, `\pX`, `(((a{30}){30}){30})`, `\x{1F600}`, `[\x{100}-\x{200}]`, `\p{Letter}`, strings.Repeat("a", 9000), strings.Repeat(`\pL{1000}`, 5)} {
		for j, match := range []string{"uri", "method", "authority"} {
			_, err := evil.Exec(t.Context(), `INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('VirtualService', 'evil', $1, jsonb_build_object(
				'hosts', jsonb_build_array($1::text || '.evil'), 'http', jsonb_build_array(jsonb_build_object('match', jsonb_build_array(
					jsonb_build_object($2::text, jsonb_build_object('regex', $3::text))), 'directResponse', '{"status": 200}'::jsonb))))`, fmt.Sprintf("x-%d-%d", i, j), match, expression)
			if err == nil {
				taken++
			}
		}
	}
	require.Positive(t, taken, "the database refuses them all: try others")
	b.change()
	fresh := m.member("shop/fresh", "fresh", "--labels", "app=client")
	require.NotContains(t, m.page(m.Discovery.HTTP(), "/debug/proxies"), `"refused"`)
	require.NotContains(t, fresh.Log(), "rejected")
	poll.Eventually(t, func(context.Context) error {
		var n int
		if err := m.owner.QueryRow(t.Context(), "SELECT count(*) FROM mesh.problems WHERE code = 'invalid-regex' AND namespace = 'evil'").Scan(&n); err != nil {
			return err
		}
		if n < taken {
			return fmt.Errorf("%d of %d are problems", n, taken)
		}
		return nil
	})
}
