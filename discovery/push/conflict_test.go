package push

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

const rivals = `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: first, namespace: edge}
spec: {servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: second, namespace: edge}
spec: {servers: [{port: {number: 80, name: tcp, protocol: TCP}, hosts: ['*']}]}
`

func TestAConflictOfGatewaysIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	c := newReporters(slog.New(slog.NewTextHandler(&log, nil)), prometheus.NewRegistry()).conflicts
	documents, err := kinds.Parse("test.yaml", []byte(rivals))
	require.NoError(t, err)
	store := configstore.New()
	change := func(documents ...*kinds.Document) *mesh.Mesh {
		batch := kinds.Batch{Revision: 1}
		for _, d := range documents {
			batch.Changes = append(batch.Changes, kinds.Change{Key: d.Resource.Key(), Resource: d.Resource})
		}
		return mesh.Build(store.Apply(batch), nil)
	}
	classes := map[classKey]*class{}
	for _, namespace := range []string{"edge", "other"} {
		router := &mesh.Proxy{Type: mesh.Router, Addresses: []string{"10.0.0.1"}, Namespace: namespace}
		classes[classKey{Class: mesh.Class{Traits: mesh.Traits{Type: mesh.Router}, Namespace: namespace}}] = &class{of: &member{configured: router}}
	}
	both := change(documents...)
	tell := func(m *mesh.Mesh) { c.report("1", conflicts(m, classes)) }
	tell(both)
	tell(both)
	require.Equal(t, 1, strings.Count(log.String(), `resource="Gateway edge/second" path=spec.servers[0]`), log.String())
	require.InDelta(t, 1, testutil.ToFloat64(c.count), 0)

	tell(mesh.Build(store.Apply(kinds.Batch{Revision: 2, Changes: []kinds.Change{{Key: documents[0].Resource.Key()}}}), nil))
	require.Zero(t, testutil.ToFloat64(c.count))
	tell(both)
	require.Equal(t, 2, strings.Count(log.String(), "edge/second"))
}
