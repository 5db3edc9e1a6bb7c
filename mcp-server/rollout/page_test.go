package rollout_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// What docs/is-my-change-live.md has people ask in psql is answered.
func TestThePageAsksWhatSQLAnswers(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/is-my-change-live.md")
	require.NoError(t, err)
	s := serve(t)
	_, err = s.conn.Exec(t.Context(), `INSERT INTO mesh.virtual_services (namespace, name, spec)
		VALUES ('shop', 'web', '{"hosts": ["web.shop"], "http": [{"route": [{"destination": {"host": "web.shop"}}]}]}')`)
	require.NoError(t, err)
	s.discovery("eu-1").told(1, proxy(1, "a"), proxy(2, "b"))
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(blocks), 4)
	for _, block := range blocks {
		for _, statement := range regexp.MustCompile(`[^;]*;`).FindAllString(block[1], -1) {
			_, err := s.conn.Exec(t.Context(), statement)
			require.NoError(t, err, statement)
		}
	}
}
