// Package proxy simulates Envoys for an ADS server, cheaply, since they share a machine with what
// they measure.
//
// A proxy makes the requests of a stock Envoy: for clusters, then for the endpoints of EDS
// clusters, then for listeners, then for the routes that these name, and for virtual hosts once a
// route configuration uses VHDS. It acknowledges everything, unless it is told to judge, and keeps
// only names. Each has its own connection. It parses only the parts of a resource that refer to
// others.
package proxy

import (
	"context"
	"fmt"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/testbench/frames"
)

// Options describe a proxy.
type Options struct {
	Address     string       // of the server
	Node        *corev3.Node // as in a bootstrap
	Incremental bool         // otherwise state of the world

	// Expect is what the proxy must have, at least, to count as served.
	Expect Expected
	// Heard is called with each response before it is acknowledged. The response is valid only
	// during the call.
	Heard func(Response)
	// Served is called once, when every request was answered and everything expected has arrived.
	Served func(at time.Time)

	// Judge, unless it is nil, decides on each response after Heard: an error refuses all of it, in
	// these words. It may take its time. The context ends with the proxy.
	Judge func(context.Context, Offer) error
	// Memory is what the proxy has from earlier streams, and will have after this one. Without, it
	// comes with nothing.
	Memory *Memory
}

// Expected has known numbers of resources. Virtual hosts arrive unrequested, so only their number
// shows that all have arrived.
type Expected struct{ Endpoints, VirtualHosts int }

// Response is a response as received.
type Response struct {
	Type  Type
	At    time.Time
	Bytes []byte
}

// Offer is what a response would change. All resources that there are of a type are in each response
// of clusters and listeners in the state of the world.
type Offer struct {
	Type           Type
	Names, Removed []string
}

// Windows of the size of Envoy's. Those of gRPC are smaller, and would slow down the server.
const (
	streamWindow     = 16 << 20
	connectionWindow = 24 << 20
)

// maxUnsent is how many requests may be queued. A proxy that cannot send still reads.
const maxUnsent = 64

// Proxy is a simulated Envoy.
type Proxy struct {
	options Options
	form    form
	conn    *grpc.ClientConn
	stream  grpc.ClientStream

	*Memory

	served   bool
	requests chan []byte
}

// Run connects a proxy, and follows the server until it fails or the context ends, which is no
// error.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, err := open(ctx, o)
	if err != nil && ctx.Err() != nil {
		return nil // the context ended before it was connected
	}
	if err != nil {
		return err
	}
	defer p.conn.Close()
	sent := make(chan error, 1)
	go func() { sent <- p.send() }()
	err = p.begin()
	if err == nil {
		err = p.follow(ctx)
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

// Windows returns the options for the flow control windows of a proxy.
func Windows() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(connectionWindow)}
}

func open(ctx context.Context, o Options) (*Proxy, error) {
	conn, err := frames.Dial(o.Address, Windows()...)
	if err != nil {
		return nil, err
	}
	p := &Proxy{options: o, form: stateOfTheWorld{}, conn: conn, requests: make(chan []byte, maxUnsent), Memory: o.Memory}
	if o.Incremental {
		p.form = incremental{}
	}
	if p.Memory == nil {
		p.Memory = NewMemory()
		p.versions = [Types]map[name]string{} // nobody will need them
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

// begin sends the first requests: for clusters, with the node, and for what else an earlier stream
// has asked for.
func (p *Proxy) begin() error {
	node, err := proto.Marshal(ofEnvoy(p.options.Node))
	if err != nil {
		return err
	}
	p.subscriptions[Clusters].begun = true
	for t := range p.subscriptions {
		s := &p.subscriptions[t]
		if !s.begun {
			continue
		}
		s.nonce = ""
		request := p.form.again(s, p.versions[s.kind])
		if s.kind == Clusters {
			request = p.form.node(request, node)
		}
		p.requests <- request
	}
	return nil
}

// follow processes responses until the stream ends.
func (p *Proxy) follow(ctx context.Context) error {
	var r response
	for {
		var f frames.Frame
		if err := p.stream.RecvMsg(&f); err != nil {
			return err
		}
		at := time.Now()
		data := f.Whole()
		err := p.take(ctx, data.ReadOnlyData(), at, &r)
		data.Free()
		if err != nil {
			return err
		}
	}
}

func (p *Proxy) take(ctx context.Context, data []byte, at time.Time, r *response) error {
	if err := p.form.parse(data, r); err != nil {
		return err
	}
	if !r.known || !p.subscriptions[r.kind].begun {
		return fmt.Errorf("sent %s, for which it has not asked", r.kind)
	}
	p.options.Heard(Response{r.kind, at, data})
	if p.options.Judge != nil {
		if err := p.options.Judge(ctx, r.offer()); err != nil {
			s := &p.subscriptions[r.kind]
			s.nonce = r.nonce
			p.requests <- p.form.refuse(s, err.Error())
			return nil
		}
	}
	if err := p.answer(r); err != nil {
		return err
	}
	if !p.served && p.complete() {
		p.served = true
		p.options.Served(at)
	}
	return nil
}

// complete reports whether the proxy has everything that an Envoy waits for.
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
