package legacy_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/mcp-server/legacy"
	legacyv1 "github.com/pgmesh/pgmesh/proto/istio/mcp/v1alpha1"
)

// dialled is a sink that is dialled. A test drives each of its streams.
type dialled struct {
	legacyv1.UnimplementedResourceSinkServer

	t       *testing.T
	address string
	streams chan *incoming
}

type incoming struct {
	*sink

	metadata metadata.MD
	end      chan error
	gone     <-chan struct{}
}

func wantsToBeDialled(t *testing.T) *dialled {
	t.Helper()
	d := &dialled{t: t, streams: make(chan *incoming)}
	d.address = listen(t, func(r grpc.ServiceRegistrar) { legacyv1.RegisterResourceSinkServer(r, d) })
	return d
}

func (d *dialled) EstablishResourceStream(g grpc.BidiStreamingServer[legacyv1.Resources, legacyv1.RequestResources]) error {
	header, _ := metadata.FromIncomingContext(g.Context())
	in := &incoming{&sink{d.t, g}, header, make(chan error, 1), g.Context().Done()}
	select {
	case d.streams <- in:
	case <-g.Context().Done():
		return nil
	}
	select {
	case err := <-in.end:
		return err
	case <-g.Context().Done():
		return nil
	}
}

// next waits for a stream and the trigger on it.
func (d *dialled) next() *incoming {
	d.t.Helper()
	select {
	case in := <-d.streams:
		trigger := in.recv()
		require.Equal(d.t, "$triggerCollection", trigger.GetCollection())
		require.Empty(d.t, trigger.GetNonce())
		return in
	case <-time.After(limit):
		d.t.Fatal("nobody has dialled")
		return nil
	}
}

// refuseTrigger refuses the trigger as the stock sink does, after its first requests.
func (in *incoming) refuseTrigger(collection string) {
	in.t.Helper()
	in.send(&legacyv1.RequestResources{
		Collection: collection, ErrorDetail: &rpcstatus.Status{Code: int32(codes.Unimplemented), Message: "unsupported collection"},
	})
}

// dialling returns a mesh whose server dials sinks.
func dialling(t *testing.T) (*mesh, *legacy.Sinks) {
	t.Helper()
	var m *mesh
	m = newMesh(t, func(cfg *legacy.Config) {
		cfg.Everything = func() *served.Subscriber { return m.publisher.Subscribe() }
		cfg.Credentials = func(s legacy.Sink) (credentials.TransportCredentials, error) {
			if s.ServerName == "forbidden" {
				return nil, errors.New("not this one")
			}
			return insecure.NewCredentials(), nil
		}
	})
	sinks := legacy.NewSinks(m.source)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- sinks.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	return m, sinks
}

func TestASinkIsDialledAndServedLikeOneThatDials(t *testing.T) {
	t.Parallel()
	m, sinks := dialling(t)
	m.write("a=a", "b=b")
	d := wantsToBeDialled(t)
	sinks.Set("flags", []legacy.Sink{{Address: d.address, Metadata: map[string]string{"x-team": "shop"}}})
	in := d.next()
	require.Equal(t, []string{"shop"}, in.metadata.Get("x-team"))
	in.ask(virtualServices, gateways)
	in.refuseTrigger("$triggerCollection")
	first, other := in.recv(), in.recv()
	require.Equal(t, []string{"1", "2"}, []string{first.GetNonce(), other.GetNonce()})
	require.Equal(t, []string{"default/a", "default/b"}, names(first))
	in.ack(first)
	in.nack(other)
	in.silent(serviceRoles)
	m.remove("a")
	require.Equal(t, []string{"default/b"}, names(in.recv()))

	states := sinks.States()
	require.Len(t, states, 1)
	require.True(t, states[0].Connected)
	require.Empty(t, states[0].Error)
	require.InDelta(t, 1, m.metric("sink_connected", d.address), 0)
	require.Equal(t, "ResourceSink", m.source.Streams()[0].Service)
	require.Equal(t, d.address, m.source.Streams()[0].Peer)
}

func TestRefusalsOfTheTriggerAreIgnored(t *testing.T) {
	t.Parallel()
	_, sinks := dialling(t)
	d := wantsToBeDialled(t)
	sinks.Set("flags", []legacy.Sink{{Address: d.address}})
	in := d.next()
	in.refuseTrigger("$triggerCollection")
	in.refuseTrigger("") // of the first releases
	in.ask(virtualServices)
	require.Equal(t, virtualServices, in.recv().GetCollection())
}

func TestASinkIsDialledAgain(t *testing.T) {
	t.Parallel()
	m, sinks := dialling(t)
	m.write("a=a", "b=b")
	d := wantsToBeDialled(t)
	sinks.Set("flags", []legacy.Sink{{Address: d.address}})
	in := d.next()
	in.askIncremental(virtualServices, nil)
	first := in.recv()
	in.ackIncremental(first)
	in.end <- status.Error(codes.Unavailable, "moving house")

	in = d.next()
	require.Contains(t, sinks.States()[0].Error, "moving house")
	require.False(t, sinks.States()[0].Connected)
	require.InDelta(t, 1, m.metric("sink_failures_total", d.address), 0)
	require.Contains(t, m.log.String(), "moving house")
	m.remove("b")
	in.askIncremental(virtualServices, versions(first))
	require.Equal(t, []string{"default/b"}, in.recv().GetRemovedResources())
	in.end <- nil
	d.next()
	require.Equal(t, "the sink has ended the stream", sinks.States()[0].Error)
}

func TestAnInvalidRequestEndsTheStreamToASink(t *testing.T) {
	t.Parallel()
	_, sinks := dialling(t)
	d := wantsToBeDialled(t)
	sinks.Set("flags", []legacy.Sink{{Address: d.address}})
	in := d.next()
	in.ask("nonsense")
	<-in.gone
	d.next()
	require.Contains(t, sinks.States()[0].Error, `unsupported collection "nonsense"`)
}

func TestSinksComeAndGo(t *testing.T) {
	t.Parallel()
	m, sinks := dialling(t)
	one, two := wantsToBeDialled(t), wantsToBeDialled(t)
	sinks.Set("table", []legacy.Sink{{Address: one.address}, {Address: two.address}})
	first, second := one.next(), two.next()
	first.ask(virtualServices)
	first.recv()
	second.ask(virtualServices)
	second.recv()

	sinks.Set("table", []legacy.Sink{{Address: one.address}}) // the other goes on undisturbed
	<-second.gone
	first.silent(gateways)
	require.Eventually(t, func() bool { return len(sinks.States()) == 1 }, limit, 10*time.Millisecond)
	sinks.Set("table", []legacy.Sink{{Address: one.address, Metadata: map[string]string{"a": "b"}}})
	<-first.gone
	require.Equal(t, []string{"b"}, one.next().metadata.Get("a"))

	sinks.Set("flags", []legacy.Sink{{Address: one.address, Metadata: map[string]string{"a": "flag"}}})
	require.Equal(t, []string{"flag"}, one.next().metadata.Get("a"), "flags come first")
	sinks.Set("table", nil)
	sinks.Set("flags", nil)
	require.Eventually(t, func() bool { return len(sinks.States()) == 0 }, limit, 10*time.Millisecond)
	require.Zero(t, m.metric("sink_connected", one.address))
}

func TestStatesReportASinkThatCannotBeDialled(t *testing.T) {
	t.Parallel()
	m, sinks := dialling(t)
	sinks.Set("flags", []legacy.Sink{{Address: "127.0.0.1:1"}, {Address: "x:1", ServerName: "forbidden"}})
	told := func(i int) string {
		states := sinks.States()
		if len(states) <= i {
			return ""
		}
		return states[i].Error
	}
	require.Eventually(t, func() bool { return told(0) != "" && told(1) == "not this one" }, limit, 10*time.Millisecond)
	require.Contains(t, told(0), "connection refused")
	require.Contains(t, m.log.String(), "it keeps what it has")
}
