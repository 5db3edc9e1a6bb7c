package legacy

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	mcp "istio.io/api/mcp/v1alpha1"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/limits"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/clients"
	legacyv1 "github.com/pgmesh/pgmesh/proto/istio/mcp/v1alpha1"
)

// script is a stream whose two ends take turns. Each message is encoded and decoded.
type script struct {
	exchange

	t    *testing.T
	sent []*legacyv1.Resources // and not yet read by the sink
}

func (s *script) send(m proto.Message) error {
	encoded, err := proto.Marshal(m)
	require.NoError(s.t, err)
	require.LessOrEqual(s.t, len(encoded), scriptLimit)
	var r legacyv1.Resources
	require.NoError(s.t, proto.Unmarshal(encoded, &r))
	s.sent = append(s.sent, &r)
	return nil
}

const scriptLimit = 500

// play is a sink and a source, between which a fuzzer decides what happens.
type play struct {
	t      *testing.T
	topic  served.Topic
	view   *served.Subscriber
	set    *served.Set
	stream *stream
	wire   *script
	has    map[string]string // what the sink has
	unsaid *legacyv1.Resources
}

var (
	played, _ = kinds.ByName("VirtualService")
	source    = NewSource(Config{MaxMessage: scriptLimit, Clients: clients.NewRoll(), Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)})
)

func newPlay(t *testing.T) *play {
	t.Helper()
	p := &play{t: t, has: map[string]string{}, set: served.NewSet()}
	p.view = p.topic.Subscribe()
	p.publish()
	p.reconnect()
	return p
}

func (p *play) reconnect() {
	if p.stream != nil {
		p.stream.leave()
	}
	p.wire, p.unsaid = &script{t: p.t}, nil
	p.stream = newStream(source, p.wire, p.view, source.cfg.Log, &streamReport{}, "somebody")
	p.stream.requestLimiter = rate.NewLimiter(rate.Inf, 1)
}

func (p *play) publish() {
	p.topic.Publish(&served.Snapshot{Sets: map[string]*served.Set{played.TypeURL(): p.set}})
}

// resource returns a resource whose size depends on its version. Some fit into no message.
func resource(name string, version byte) *served.Resource {
	r := &served.Resource{Name: "default/" + name, Version: fmt.Sprint(version)}
	envelope := &mcp.Resource{Metadata: &mcp.Metadata{Name: r.Name, Version: r.Version, Labels: map[string]string{
		"pad": strings.Repeat("x", int(version)*60),
	}}}
	r.Body, _ = anypb.New(envelope)
	return r
}

func (p *play) say(r *legacyv1.RequestResources) {
	p.t.Helper()
	r.Collection = played.Collection
	require.NoError(p.t, p.stream.handle(p.t.Context(), &request{
		collection: r.GetCollection(), nonce: r.GetResponseNonce(), failure: r.GetErrorDetail(),
		incremental: r.GetIncremental(), held: r.GetInitialResourceVersions(),
	}))
	require.NoError(p.t, p.stream.advance())
}

func (p *play) ask(incremental bool) {
	p.say(&legacyv1.RequestResources{Incremental: incremental, InitialResourceVersions: maps.Clone(p.has)})
}

// read applies the next message. A refused one changes nothing.
func (p *play) read(accept bool) {
	p.unsaid = p.wire.sent[0]
	p.wire.sent = p.wire.sent[1:]
	if !accept {
		return
	}
	if !p.unsaid.GetIncremental() {
		clear(p.has)
	}
	for _, r := range p.unsaid.GetResources() {
		p.has[r.GetMetadata().GetName()] = r.GetMetadata().GetVersion()
	}
	for _, name := range p.unsaid.GetRemovedResources() {
		delete(p.has, name)
	}
}

func (p *play) answer(incremental, accept bool) {
	r := &legacyv1.RequestResources{ResponseNonce: p.unsaid.GetNonce(), Incremental: incremental}
	if !accept {
		r.ErrorDetail = &status.Status{Code: 3}
	}
	p.unsaid = nil
	p.say(r)
}

// step performs the action for a byte.
func (p *play) step(b byte) {
	argument := b >> 4
	switch b & 7 {
	case 0, 1:
		p.set = p.set.With([]*served.Resource{resource(fmt.Sprint("n", argument%6), argument%5)}, nil)
		p.publish()
	case 2:
		p.set = p.set.With(nil, []string{fmt.Sprint("default/n", argument%6)})
		p.publish()
	case 3:
		p.ask(argument&1 == 1)
	case 4:
		p.reconnect()
		p.ask(argument&1 == 1)
	case 5:
		p.say(&legacyv1.RequestResources{ResponseNonce: "no nonce of ours", Incremental: argument&1 == 1})
	default:
		if len(p.wire.sent) > 0 {
			accept := argument&6 != 0
			p.read(accept)
			p.answer(argument&1 == 1, accept)
		}
	}
	require.NoError(p.t, p.stream.advance())
}

// accept accepts everything pending.
func (p *play) accept() {
	for n := 0; len(p.wire.sent) > 0; n++ {
		require.Less(p.t, n, 300, "it never ends")
		p.read(true)
		p.answer(true, true)
	}
}

// Whatever happens before, a sink that finally accepts all changes has the current content, except
// for resources that are too large for any message: of these it has an older version.
func FuzzExchange(f *testing.F) {
	f.Add([]byte{0x13, 0x00, 0x10, 0x26, 0x32, 0x36})
	f.Add([]byte{0x03, 0x20, 0x31, 0x46, 0x04, 0x02, 0x16, 0x06, 0x15})
	f.Add([]byte{0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x13, 0x36, 0x16, 0x12, 0x36, 0x36})
	f.Fuzz(func(t *testing.T, steps []byte) {
		if len(steps) > 200 {
			t.Skip("a longer one tells nothing new")
		}
		p := newPlay(t)
		for _, b := range steps {
			p.step(b)
		}
		p.accept()
		p.reconnect()
		p.ask(true)
		p.accept()
		for r := range p.set.All() {
			if len(r.Body.GetValue()) < scriptLimit-150 {
				require.Equal(t, r.Version, p.has[r.Name])
			}
		}
		for name := range p.has {
			require.NotNil(t, p.set.Get(name), "%s is gone", name)
		}
	})
}

// A sink may send anything that decodes.
func FuzzRequest(f *testing.F) {
	for _, r := range []*legacyv1.RequestResources{
		{Collection: played.Collection, Incremental: true, InitialResourceVersions: map[string]string{"a": "b", "": ""}},
		{Collection: legacyv1.TriggerCollection, ErrorDetail: &status.Status{Code: 12}},
		{Collection: "nonsense", ResponseNonce: "1"},
	} {
		encoded, err := proto.Marshal(r)
		require.NoError(f, err)
		f.Add(encoded)
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		p := newPlay(t)
		p.set = p.set.With([]*served.Resource{resource("a", 1)}, nil)
		p.publish()
		var m legacyv1.RequestResources
		if proto.Unmarshal(message, &m) != nil {
			t.Skip("gRPC refuses it")
		}
		w := exchange{stream: &once{message: &m}, reader: &limits.Reader{}}
		for range 2 {
			r, err := w.recv()
			if errors.Is(err, errOver) {
				require.True(t, refusesTrigger(&m))
				return
			}
			if p.stream.handle(t.Context(), r) != nil {
				require.NotContains(t, collections(), r.collection)
				return
			}
			require.NoError(t, p.stream.advance())
			w = exchange{stream: &once{message: &m}, reader: &limits.Reader{}}
		}
		require.NotEmpty(t, p.wire.sent, "who asks for a collection is answered")
		require.Equal(t, m.GetCollection(), p.wire.sent[0].GetCollection())
	})
}

var errOver = errors.New("the stream is over")

// once is a stream of one message.
type once struct{ message *legacyv1.RequestResources }

func (o *once) Send(*legacyv1.Resources) error { return nil }

func (o *once) RecvMsg(into any) error {
	m := o.message
	if o.message = nil; m == nil {
		return errOver
	}
	proto.Merge(into.(admitted).Message, m)
	return nil
}
