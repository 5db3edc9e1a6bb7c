package registries_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	"github.com/pgmesh/pgmesh/mcp-server/registries"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
	"github.com/pgmesh/pgmesh/registry"
)

// lender is a registry with secrets, which does what a test says.
type lender struct {
	steps chan func(registry.Sink)
	done  chan struct{}
}

func (lender) Name() string       { return "lender" }
func (lender) LendsSecrets() bool { return true }

func (l lender) Run(ctx context.Context, sink registry.Sink) error {
	for {
		select {
		case step := <-l.steps:
			step(sink)
			l.done <- struct{}{}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lending runs a lender beside a source.
type lending struct {
	t         *testing.T
	lender    lender
	publisher *publish.Publisher
	all       *registries.Registries
	trail     *registries.Trail
}

func newLending(t *testing.T) *lending {
	t.Helper()
	l := &lending{t: t, lender: lender{make(chan func(registry.Sink)), make(chan struct{})}, publisher: publish.New(prometheus.NewRegistry())}
	l.all = registries.New(l.publisher, slog.New(slog.DiscardHandler), prometheus.NewRegistry(), registries.Options{Registries: []registry.Registry{l.lender}, Wait: time.Minute})
	l.trail = l.all.Trails()[0]
	l.trail.Begin()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.all.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	l.source(true)
	l.do(func(s registry.Sink) { s.Replace(nil) })
	return l
}

// source gives the content of the source, which has nothing, and may not know secrets.
func (l *lending) source(secrets bool) {
	l.publisher.Begin(publish.Source{Name: publish.Database})
	l.publisher.Replace(publish.Content{Secrets: secrets}, publish.Position{Revision: 1})
}

func (l *lending) do(step func(registry.Sink)) {
	l.lender.steps <- step
	<-l.lender.done
}

func (l *lending) gives(namespace string, all ...registry.Secret) {
	l.do(func(s registry.Sink) { s.Secrets(namespace, all) })
}

// served are the private keys that clients are given which may have secrets, with for whom.
func (l *lending) served() map[string]string {
	l.t.Helper()
	news := l.publisher.SubscribeWithSecrets()
	defer news.Close()
	found := map[string]string{}
	for r := range news.Snapshot().Sets[kinds.Secret.TypeURL()].All() {
		read, err := kinds.FromAny(kinds.Secret, r.Name, r.Body)
		require.NoError(l.t, err)
		spec := read.Spec.Message().(*mcpv1.Secret)
		require.Equal(l.t, "lender", read.Origin())
		found[r.Name] = string(spec.GetData()["tls.key"]) + strings.Join(spec.GetServiceAccounts(), ",")
	}
	return found
}

// gate is a secret in a version.
func gate(namespace, version string, p certtest.Pair, accounts ...string) registry.Secret {
	return registry.Secret{Version: version, Resource: &kinds.Resource{
		Kind: kinds.Secret, Namespace: namespace, Name: "gate", Annotations: map[string]string{kinds.OriginEntryAnnotation: "secrets/" + namespace + "/gate"},
		Spec: kinds.SpecOf(&mcpv1.Secret{Type: "kubernetes.io/tls", Data: map[string][]byte{"tls.crt": p.Cert, "tls.key": p.Key}, ServiceAccounts: accounts}),
	}}
}

func TestSecretsAreServedAndShownToNobody(t *testing.T) {
	t.Parallel()
	l, authority := newLending(t), certtest.NewAuthority(t)
	first, second := authority.Issue(nil), authority.Issue(nil)
	l.gives("shop", gate("shop", "1", first, "gate"))
	l.gives("edge", gate("edge", "1", first, "gate"))
	require.Equal(t, map[string]string{"shop/gate": string(first.Key) + "gate", "edge/gate": string(first.Key) + "gate"}, l.served())
	l.gives("shop", gate("shop", "2", second, "gate", "other"))
	require.Equal(t, string(second.Key)+"gate,other", l.served()["shop/gate"])
	l.gives("edge")
	require.Equal(t, map[string]string{"shop/gate": string(second.Key) + "gate,other"}, l.served())
	l.do(func(s registry.Sink) { s.Replace(nil) })
	require.Len(t, l.served(), 1, "they are no resources")

	// What people and the mirror are told has the certificate alone.
	shown, err := l.all.Secrets(nil)
	require.NoError(t, err)
	require.Len(t, shown, 1)
	require.Equal(t, map[string][]byte{"tls.crt": second.Cert, "tls.key": {}}, shown[0].Spec.Message().(*mcpv1.Secret).GetData())
	none, err := l.all.Secrets([]string{"edge"})
	require.NoError(t, err)
	require.Empty(t, none)
	require.Empty(t, l.all.Keys(func(kinds.Key) bool { return true }))
	changes, _ := l.trail.Take(10, 1<<20)
	require.Len(t, changes, 2, "one is gone")
	for _, c := range changes {
		if c.Resource != nil {
			require.NotContains(t, string(c.Resource.Body.GetValue()), strings.Split(string(second.Key), "\n")[1])
		}
	}
	key := kinds.Key{Kind: kinds.Secret, Namespace: "shop", Name: "gate"}
	read, err := l.all.Get(key)
	require.NoError(t, err)
	require.Empty(t, read.Spec.Message().(*mcpv1.Secret).GetData()["tls.key"])

	// Those who may not have secrets have none in what they are sent.
	news := l.publisher.Subscribe()
	defer news.Close()
	require.Nil(t, news.Snapshot().Sets[kinds.Secret.TypeURL()])
}

func TestABadSecretKeepsItsLastGoodStateForThoseItNames(t *testing.T) {
	t.Parallel()
	l, authority := newLending(t), certtest.NewAuthority(t)
	good, other := authority.Issue(nil), authority.Issue(nil)
	torn := good
	torn.Key = other.Key
	planted := strings.Split(string(other.Key), "\n")[1]
	l.gives("shop", gate("shop", "1", good, "gate"))
	l.gives("shop", gate("shop", "2", torn, "gate"))
	require.Equal(t, map[string]string{"shop/gate": string(good.Key) + "gate"}, l.served())
	bad := l.all.Status()[0].Bad
	require.Len(t, bad, 1)
	require.Contains(t, bad[0].Reason, "is not the key of the certificate in tls.crt")
	require.NotContains(t, l.all.About(), planted)

	l.gives("shop", gate("shop", "3", torn, "other"))
	require.Equal(t, map[string]string{"shop/gate": string(good.Key) + "other"}, l.served(), "whom it is taken from does not keep it")
	l.gives("shop", gate("shop", "4", good))
	require.Empty(t, l.served(), "it is for nobody")
	require.Contains(t, l.all.About(), "it names no service account whose gateways may have it, so nobody is given it")
	l.gives("shop", gate("shop", "5", torn, "gate"))
	require.Empty(t, l.served(), "there is no good state any more")
	l.gives("shop")
	require.Empty(t, l.all.Status()[0].Bad)
}

// While the source does not know its own secrets, those of a registry would say that the others are
// gone.
func TestSecretsOfARegistryWaitForThoseOfTheSource(t *testing.T) {
	t.Parallel()
	l := newLending(t)
	pair := certtest.NewAuthority(t).Issue(nil)
	l.publisher = publish.New(prometheus.NewRegistry())
	l.publisher.Join("lender")
	l.source(false)
	l.publisher.Settle("lender")
	news := l.publisher.SubscribeWithSecrets()
	defer news.Close()
	r, err := gate("shop", "1", pair, "gate").Any("1")
	require.NoError(t, err)
	l.publisher.ApplyJoined("lender", publish.Changes{Upserts: map[*kinds.Kind][]*served.Resource{kinds.Secret: {served.NewResource("shop/gate", "1", r)}}})
	require.True(t, news.Snapshot().Withheld[kinds.Secret.TypeURL()])
	require.Nil(t, news.Snapshot().Sets[kinds.Secret.TypeURL()])
	l.source(true)
	require.Empty(t, news.Snapshot().Withheld)
	require.Equal(t, 1, news.Snapshot().Sets[kinds.Secret.TypeURL()].Len())
}
