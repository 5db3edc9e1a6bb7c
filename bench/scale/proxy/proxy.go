// Package proxy simulates Envoys towards an ADS server: cheaply, for they share a machine with what they measure.
//
// A proxy asks as a stock Envoy does: first for clusters, then for the endpoints of those that say so, then for listeners, then for the
// routes that these name, and for virtual hosts once a route configuration has more of them than it holds. It acknowledges everything, and
// keeps of what it is sent only the names. Each has a connection of its own. What comes is read as bytes, and of a resource only
// what leads to others.
package proxy

import (
	"context"
	"fmt"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/bench/frames"
)

// Options say who a proxy is and what it tells of itself.
type Options struct {
	Address     string       // of the server
	Node        *corev3.Node // as in a bootstrap
	Incremental bool         // or state of the world

	// Expect is the least that the proxy has to have before it counts as served.
	Expect Expected
	// Heard is called with each response, before it is answered. What it is given is gone when it returns.
	Heard func(Response)
	// Served is called once, when everything that was asked for was answered and all is there that was expected.
	Served func(at time.Time)
}

// Expected is how much there is, where that is known: a virtual host comes unasked, so there is no other way to tell that all are there.
type Expected struct{ Endpoints, VirtualHosts int }

// Response is a response as it came.
type Response struct {
	Type  Type
	At    time.Time
	Bytes []byte
}

// Envoy's own windows are larger than what gRPC begins with, and a server that is held up by small ones would be measured for it.
const (
	streamWindow     = 16 << 20
	connectionWindow = 24 << 20
)

// sending is how many requests may wait to be sent: a proxy that cannot send still reads.
const sending = 64

// Proxy is a simulated Envoy.
type Proxy struct {
	options Options
	form    form
	conn    *grpc.ClientConn
	stream  grpc.ClientStream

	subscriptions [Types]subscription
	// refers are the names that each cluster and listener refers to.
	clusters, listeners map[name][]name
	sums                map[name]uint64 // of clusters
	hosts               map[name]int    // virtual hosts in each route configuration
	more                bool            // virtual hosts come by themselves
	virtualHosts        map[name]bool
	served              bool

	requests chan []byte
}

// Run connects a proxy and follows the server until the context ends, which is not an error, or the server fails.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, err := open(ctx, o)
	if err != nil && ctx.Err() != nil {
		return nil // it has left before it was there
	}
	if err != nil {
		return err
	}
	defer p.conn.Close()
	sent := make(chan error, 1)
	go func() { sent <- p.send() }()
	err = p.begin()
	if err == nil {
		err = p.follow()
	}
	over := ctx.Err()
	cancel()
	close(p.requests)
	<-sent
	if over != nil {
		return nil
	}
	return fmt.Errorf("proxy %s: %w", o.Node.GetId(), err)
}

// Windows are how much may be on its way to a proxy.
func Windows() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(connectionWindow)}
}

func open(ctx context.Context, o Options) (*Proxy, error) {
	conn, err := frames.Dial(o.Address, Windows()...)
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		options: o, form: stateOfTheWorld{}, conn: conn, requests: make(chan []byte, sending),
		clusters: map[name][]name{}, listeners: map[name][]name{}, sums: map[name]uint64{}, hosts: map[name]int{}, virtualHosts: map[name]bool{},
	}
	if o.Incremental {
		p.form = incremental{}
	}
	for t := range p.subscriptions {
		p.subscriptions[t] = subscription{kind: Type(t), wanted: map[name]*want{}}
	}
	p.stream, err = frames.Open(ctx, conn, p.form.method())
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("connect proxy %s: %w", o.Node.GetId(), err)
	}
	return p, nil
}

func (p *Proxy) send() error {
	var failed error
	for r := range p.requests {
		if failed == nil {
			failed = p.stream.SendMsg(frames.Of(r))
		}
	}
	return failed
}

// begin asks for clusters, and says who asks.
func (p *Proxy) begin() error {
	node, err := proto.Marshal(ofEnvoy(p.options.Node))
	if err != nil {
		return err
	}
	s := &p.subscriptions[Clusters]
	s.begun = true
	p.requests <- p.form.node(p.form.ask(s, nil, nil), node)
	return nil
}

// follow takes in responses until there are no more.
func (p *Proxy) follow() error {
	var r response
	for {
		var f frames.Frame
		if err := p.stream.RecvMsg(&f); err != nil {
			return err
		}
		at := time.Now()
		data := f.Whole()
		err := p.take(data.ReadOnlyData(), at, &r)
		data.Free()
		if err != nil {
			return err
		}
	}
}

func (p *Proxy) take(data []byte, at time.Time, r *response) error {
	if err := p.form.parse(data, r); err != nil {
		return err
	}
	if !r.known || !p.subscriptions[r.kind].begun {
		return fmt.Errorf("sent %s, for which it has not asked", r.kind)
	}
	p.options.Heard(Response{r.kind, at, data})
	if err := p.answer(r); err != nil {
		return err
	}
	if !p.served && p.complete() {
		p.served = true
		p.options.Served(at)
	}
	return nil
}

// complete tells whether the proxy would begin to work.
func (p *Proxy) complete() bool {
	hosts := len(p.virtualHosts)
	for _, n := range p.hosts {
		hosts += n
	}
	for t := range p.subscriptions {
		if s := &p.subscriptions[t]; s.begun && !s.settled() {
			return false
		}
	}
	return p.subscriptions[Listeners].begun && len(p.subscriptions[Endpoints].wanted) >= p.options.Expect.Endpoints &&
		hosts >= p.options.Expect.VirtualHosts
}
