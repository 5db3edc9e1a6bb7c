package proxy_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/testbench/frames"
)

// relay forwards between one client and an ADS server, and records their messages.
type relay struct {
	t        *testing.T
	upstream *grpc.ClientConn
	address  string

	mu       sync.Mutex
	asked    []message
	answered []message
	nonces   map[string]string // of the last response of each type
	open     int               // responses without an answer
	moved    chan struct{}
	node     *corev3.Node // of the first request
}

// message is a message of the client or the server.
type message struct {
	kind string
	text string
	acks bool
}

func newRelay(t *testing.T, upstream string) *relay {
	t.Helper()
	conn, err := frames.Dial(upstream)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &relay{t: t, upstream: conn, address: l.Addr().String(), nonces: map[string]string{}, moved: make(chan struct{}, 1)}
	server := grpc.NewServer(grpc.ForceServerCodecV2(frames.Codec), grpc.UnknownServiceHandler(r.serve))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-ended)
		require.NoError(t, conn.Close())
	})
	return r
}

func (r *relay) serve(_ any, client grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(client)
	ctx, cancel := context.WithCancel(client.Context())
	defer cancel()
	server, err := frames.Open(ctx, r.upstream, method)
	if err != nil {
		return err
	}
	delta := strings.HasSuffix(method, "/DeltaAggregatedResources")
	ended := make(chan error, 2)
	go func() { ended <- pass(client, server, func(data []byte) error { return r.ask(data, delta) }) }()
	go func() { ended <- pass(server, client, func(data []byte) error { return r.answer(data, delta) }) }()
	return <-ended
}

type stream interface {
	SendMsg(any) error
	RecvMsg(any) error
}

func pass(from, to stream, note func([]byte) error) error {
	for {
		var f frames.Frame
		if err := from.RecvMsg(&f); err != nil {
			return err
		}
		data := f.Data.Materialize()
		if err := note(data); err != nil {
			return err
		}
		if err := to.SendMsg(&frames.Frame{Data: mem.BufferSlice{mem.SliceBuffer(data)}}); err != nil {
			return err
		}
	}
}

func (r *relay) ask(data []byte, delta bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.tell()
	if delta {
		var m discoveryv3.DeltaDiscoveryRequest
		if err := proto.Unmarshal(data, &m); err != nil {
			return err
		}
		r.introduce(m.GetNode())
		r.note(m.GetTypeUrl(), m.GetResponseNonce(), m.GetErrorDetail().GetMessage(),
			fmt.Sprint("+", sorted(m.GetResourceNamesSubscribe()), " -", sorted(m.GetResourceNamesUnsubscribe())))
		return nil
	}
	var m discoveryv3.DiscoveryRequest
	if err := proto.Unmarshal(data, &m); err != nil {
		return err
	}
	r.introduce(m.GetNode())
	r.note(m.GetTypeUrl(), m.GetResponseNonce(), m.GetErrorDetail().GetMessage(), fmt.Sprint(sorted(m.GetResourceNames())))
	return nil
}

// introduce keeps the node, which only the first request has.
func (r *relay) introduce(node *corev3.Node) {
	if node != nil && r.node != nil {
		r.t.Error("a second request has a node")
	}
	if node != nil {
		r.node = node
	}
}

// note distinguishes the ACK of a response, of which there is one, from other requests.
func (r *relay) note(url, nonce, refusal, text string) {
	m := message{kind: short(url), text: text, acks: nonce != "" && r.nonces[url] == nonce}
	if m.acks {
		delete(r.nonces, url)
		r.open--
	}
	if refusal != "" {
		m.text = "refused: " + refusal
	}
	r.asked = append(r.asked, m)
}

func (r *relay) answer(data []byte, delta bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.tell()
	var names []string
	var url, nonce string
	if delta {
		var m discoveryv3.DeltaDiscoveryResponse
		if err := proto.Unmarshal(data, &m); err != nil {
			return err
		}
		url, nonce = m.GetTypeUrl(), m.GetNonce()
		for _, resource := range m.GetResources() {
			names = append(names, "+"+resource.GetName()+string(resource.GetResource().GetValue()))
		}
		for _, gone := range m.GetRemovedResources() {
			names = append(names, "-"+gone)
		}
	} else {
		var m discoveryv3.DiscoveryResponse
		if err := proto.Unmarshal(data, &m); err != nil {
			return err
		}
		url, nonce = m.GetTypeUrl(), m.GetNonce()
		for _, resource := range m.GetResources() {
			names = append(names, "+"+string(resource.GetValue()))
		}
	}
	r.nonces[url] = nonce
	r.open++
	r.answered = append(r.answered, message{kind: short(url), text: strings.Join(names, "\n")})
	return nil
}

func (r *relay) tell() {
	select {
	case r.moved <- struct{}{}:
	default:
	}
}

const limit = 30 * time.Second

// condition decides from the requests and responses so far whether something has happened.
type condition func(asked, answered []message) bool

// until waits until a condition holds and every response has been acknowledged.
func (r *relay) until(what string, happened condition) {
	r.t.Helper()
	late := time.After(limit)
	for {
		r.mu.Lock()
		done := r.open == 0 && happened(r.asked, r.answered)
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-r.moved:
		case <-late:
			r.t.Fatalf("within %s there was not %s; asked was:\n%v", limit, what, r.all())
		}
	}
}

// all returns the requests so far.
func (r *relay) all() []message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.asked)
}

// of returns the requests of one type.
func (r *relay) of(kind string) (of []message) {
	for _, m := range r.all() {
		if m.kind == kind {
			of = append(of, m)
		}
	}
	return of
}

func short(url string) string { return url[strings.LastIndexByte(url, '.')+1:] }

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }
