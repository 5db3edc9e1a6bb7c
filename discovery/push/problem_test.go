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

func TestAProblemIsLoggedOnceWhileItLasts(t *testing.T) {
	t.Parallel()
	documents, err := kinds.Parse("test.yaml", []byte(`
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: root, namespace: default}
spec: {hosts: [x.example.com], http: [{delegate: {name: missing}}]}
`))
	require.NoError(t, err)
	root := documents[0].Resource
	store := configstore.New()
	change := func(r *kinds.Resource) *mesh.Mesh {
		return mesh.Build(store.Apply(kinds.Batch{Changes: []kinds.Change{{Key: root.Key(), Resource: r}}}), nil)
	}
	var log bytes.Buffer
	p := newReporters(slog.New(slog.NewTextHandler(&log, nil)), prometheus.NewRegistry()).between
	tell := func(m *mesh.Mesh) { p.report("1", between(m)) }
	told := func() int {
		return strings.Count(log.String(), `resource="VirtualService default/root" path=spec.http[0].delegate`)
	}

	tell(change(root))
	tell(change(root))
	require.Equal(t, 1, told())
	require.InDelta(t, 1, testutil.ToFloat64(p.count), 0)
	tell(change(nil))
	require.InDelta(t, 0, testutil.ToFloat64(p.count), 0)
	tell(change(root))
	require.Equal(t, 2, told())
}
