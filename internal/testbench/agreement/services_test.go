package agreement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/kinds"
)

// described are ways to describe a service. Some of one field are written differently and mean the
// same.
var described = [][]string{
	{"resolution: STATIC", "resolution: STATIC", "resolution: STATIC", "resolution: STATIC", "resolution: NONE", ""},
	{"", "workloadSelector: {labels: {app: a}}", "workloadSelector: {labels: {app: a}}", "workloadSelector: {labels: {app: b}}", "workloadSelector: {}"},
	{"", "exportTo: []", "exportTo: ['*']", "exportTo: ['.']", "exportTo: [shop]", "exportTo: [shop, other]", "exportTo: [other, shop]", "exportTo: [istio-system]"},
	{"ports: [{number: 80, name: http, protocol: HTTP}]", "ports: [{number: 90, name: more, protocol: HTTP}]", "ports: [{number: 80, name: http, protocol: HTTP}, {number: 90, name: more, protocol: HTTP}]"},
}

// TestTheDatabaseTellsOfServicesThatAreNotMerged makes random pairs of ServiceEntries for one host.
// The database does not know which will count as older. So it must report exactly those pairs of
// which, in one order of their ages or the other, some proxy lacks a port; among pairs that resolve
// alike, no others.
func TestTheDatabaseTellsOfServicesThatAreNotMerged(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), pgtest.New(t))
	require.NoError(t, err)
	defer conn.Close(t.Context())
	told := 0
	for seed := range uint64(300) {
		w := world{rand.New(rand.NewPCG(seed, 16)), nil}
		for _, name := range []string{"x", "y"} {
			w.service(name)
		}
		documents, err := kinds.Parse("mesh.yaml", []byte(strings.Join(w.documents, "\n---\n")))
		require.NoError(t, err)
		x, y := documents[0].Resource, documents[1].Resource
		fields := conflictingFields(t, conn, x, y)
		if fields == "" || !strings.Contains(fields, "resolution") { // another resolution costs more than ports
			require.Equalf(t, lacking(x, y) || lacking(y, x), fields != "", "seed %d: the database tells of %q\n%s", seed, fields, strings.Join(w.documents, "\n"))
			if fields != "" {
				told++
			}
		}
	}
	require.Greater(t, told, 40, "the meshes say too little")
}

// service makes a random ServiceEntry of the one host.
func (w *world) service(name string) {
	labels := w.one([]string{"{}", "{}", "{}", "{team: a}", "{team: b}"})
	spec := []string{"hosts: [a.example.com]"}
	for _, field := range described {
		if one := w.one(field); one != "" {
			spec = append(spec, one)
		}
	}
	w.documents = append(w.documents, fmt.Sprintf("{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: %s, namespace: shop, labels: %s}, spec: {%s}}",
		name, labels, strings.Join(spec, ", ")))
}

// conflictingFields are the fields in which two entries differ, as the database reports. It must
// report the same for both. The second entry is labelled afterwards, a change that does not matter.
func conflictingFields(t *testing.T, conn *pgx.Conn, x, y *kinds.Resource) string {
	t.Helper()
	ctx := t.Context()
	for _, r := range []*kinds.Resource{x, y} {
		spec, err := r.SpecJSON()
		require.NoError(t, err)
		_, err = conn.Exec(ctx, "INSERT INTO mesh.resources (api_group, kind, namespace, name, spec) VALUES ($1, $2, $3, $4, $5)", r.Kind.Group, r.Kind.Name, r.Namespace, r.Name, spec)
		require.NoError(t, err)
		_, err = conn.Exec(ctx, "UPDATE mesh.resources SET labels = $2 WHERE name = $1 AND labels <> $2", r.Name, r.Labels)
		require.NoError(t, err)
	}
	rows, err := conn.Query(ctx, `SELECT DISTINCT split_part(message, ': ', 2) FROM mesh.problems WHERE code = 'conflicting-services'`)
	require.NoError(t, err)
	fields, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	_, err = conn.Exec(ctx, "DELETE FROM mesh.resources")
	require.NoError(t, err)
	require.LessOrEqual(t, len(fields), 1)
	return strings.Join(fields, "")
}

// lacking reports whether some proxy that sees two entries of a host lacks a port of the later one.
func lacking(older, later *kinds.Resource) bool {
	return slices.ContainsFunc(namespaces, func(namespace string) bool {
		first, second, both := serviceSeen(namespace, older), serviceSeen(namespace, later), serviceSeen(namespace, older, later)
		return first != nil && second != nil && slices.ContainsFunc(second.Ports, func(p *mesh.Port) bool { return both.Port(p.Number) == nil })
	})
}

// serviceSeen is what sidecars of a namespace make of a host's entries, given the oldest first; nil
// if nothing.
func serviceSeen(namespace string, entries ...*kinds.Resource) *mesh.Service {
	var batch kinds.Batch
	for i, r := range entries {
		aged := *r
		aged.CreateTime = time.Unix(int64(i), 0)
		batch.Changes = append(batch.Changes, kinds.Change{Key: r.Key(), Resource: &aged})
	}
	m := mesh.Build(configstore.New().Apply(batch), nil)
	return m.Scope(&mesh.Proxy{Type: mesh.Sidecar, Namespace: namespace, Addresses: []string{"10.0.0.1"}}).Service("a.example.com")
}
