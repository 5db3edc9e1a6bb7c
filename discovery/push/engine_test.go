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

// newLoggingBench is a bench whose engine can be heard.
func newLoggingBench(to io.Writer) *bench {
	b := &bench{Engine: push.New(slog.New(slog.NewTextHandler(to, nil)), prometheus.NewRegistry()), config: configstore.New()}
	b.DivideByHostsFrom(fewRules)
	return b
}

// fewRules are enough for what random meshes have to be divided by hosts, and not all of it.
const fewRules = 2

// envoy is a proxy and the form in which it speaks.
type envoy struct {
	*corev3.Node

	incremental bool
}

// open connects a proxy that whoever asked for it closes.
func (b *bench) open(t testing.TB, proxy *envoy) *served.Subscriber {
	t.Helper()
	s, err := b.Open(t.Context(), newest(proxy.Node), proxy.incremental)
	require.NoError(t, err)
	return s
}
