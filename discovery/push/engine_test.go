package push_test

import (
	"io"
	"log/slog"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// newLoggingBench is a bench whose engine logs to a writer.
func newLoggingBench(to io.Writer) *bench {
	b := &bench{Engine: push.New(slog.New(slog.NewTextHandler(to, nil)), prometheus.NewRegistry()), config: configstore.New()}
	b.DivideByHostsFrom(fewRules)
	return b
}

// fewRules is a number of rules that some random meshes reach, and others do not.
const fewRules = 2

// envoy is a proxy and the form in which it speaks.
type envoy struct {
	*corev3.Node

	incremental bool
}

// open connects a proxy. The caller closes it.
func (b *bench) open(t testing.TB, proxy *envoy) *served.Subscriber {
	t.Helper()
	s, err := b.Open(t.Context(), newest(proxy.Node), proxy.incremental)
	require.NoError(t, err)
	return s
}
