package attack

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A tenant tries to fill every program's memory with what it stores. The commit is refused, and no
// program holds any of it.
func TestATenantStoresNoMoreThanItMay(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	b := newBystander(m)
	evil := m.tenant("evil", "evil")
	check := keepsBelow(t, memory{m.MCPServer, 120}, memory{m.Discovery, 120})
	b.undisturbed(func() func() {
		require.Contains(t, refused(t, evil, `INSERT INTO mesh.virtual_services (namespace, name, hosts, http) SELECT 'evil', 'large', '{large.evil}',
			jsonb_agg(jsonb_build_object('match', jsonb_build_array(jsonb_build_object('uri', jsonb_build_object('exact', '/' || n || repeat('x', 100)))),
			'directResponse', jsonb_build_object('status', 200))) FROM generate_series(1, 200000) n`), "and may be 1024 KiB at most")
		require.Contains(t, refused(t, evil, `INSERT INTO mesh.service_entries (namespace, name, hosts, resolution, ports)
			SELECT 'evil', 'e' || n, ARRAY['e' || n || '.evil'], 'DNS', '[{"number": 80, "name": "http", "protocol": "HTTP"}]' FROM generate_series(1, 20000) n`),
			`the namespace "evil" would have 20000 resources, and may have 5000`)
		require.Contains(t, refused(t, evil, `INSERT INTO mesh.service_entries (namespace, name, hosts, resolution, ports, annotations)
			SELECT 'evil', 'e' || n, ARRAY['e' || n || '.evil'], 'DNS', '[{"number": 80, "name": "http", "protocol": "HTTP"}]', jsonb_build_object('note', repeat('x', 200000))
			FROM generate_series(1, 1000) n`), "of resources, as proxies have them, and may have 64 MiB")
		require.Contains(t, refused(t, evil, `INSERT INTO mesh.service_entries (namespace, name, hosts, resolution, ports)
			SELECT 'evil', 'multiplied', ARRAY(SELECT 'm' || n || '.evil' FROM generate_series(1, 200) n), 'DNS',
			(SELECT jsonb_agg(jsonb_build_object('number', n, 'name', 'http-' || n, 'protocol', 'HTTP')) FROM generate_series(1, 200) n)`),
			"would have 313 MiB of resources, as proxies have them")
		require.Contains(t, refused(t, evil, `INSERT INTO mesh.virtual_services (namespace, name, hosts, http)
			SELECT 'evil', 'multiplied', ARRAY(SELECT 'm' || n || '.evil' FROM generate_series(1, 10000) n),
			jsonb_build_array(jsonb_build_object('directResponse', jsonb_build_object('status', 200, 'body', jsonb_build_object('string', repeat('x', 500000)))))`),
			"of resources, as proxies have them, and may have 64 MiB")
		for i := range 3 { // what is within the limits is accepted
			_, err := evil.Exec(t.Context(), fmt.Sprintf("INSERT INTO mesh.service_entries (namespace, name, hosts, resolution, ports) VALUES ('evil', 'ok-%d', '{ok-%[1]d.evil}', 'DNS', '[{\"number\": 80, \"name\": \"http\", \"protocol\": \"HTTP\"}]')", i))
			require.NoError(t, err)
		}
		return func() {}
	})
	check()
}
