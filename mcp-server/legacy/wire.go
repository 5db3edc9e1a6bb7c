package legacy

import (
	"context"
	"errors"
	"io"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/limits"
	"github.com/pgmesh/pgmesh/internal/panics"
	legacyv1 "github.com/pgmesh/pgmesh/proto/istio/mcp/v1alpha1"
)

// request is what all forms of the protocol say, in one shape.
type request struct {
	sink        string // what the sink calls itself
	collection  string // its name, or in Istio 1.0 a type URL
	nonce       string
	failure     *status.Status    // set in a NACK
	incremental bool              // the next response may hold what changed only
	held        map[string]string // the names and versions that the sink has from an earlier stream
	version     string            // the version of the collection that it has, where the form tells
	release     func()            // gives the memory back that the request takes; nil is nothing
}

// done is called when nothing of the request is needed any more.
func (r *request) done() {
	if r.release != nil {
		r.release()
	}
}

// admitted is a request that is decoded once there is memory for it.
type admitted struct {
	proto.Message
	*limits.Admission
}

// Decode is called by the servers of package rpc.
func (a admitted) Decode(data []byte) error {
	return a.Decoded(data, func() error { return proto.Unmarshal(data, a.Message) })
}

// receiveInto receives a request, and returns what gives its memory back.
func receiveInto(m proto.Message, stream interface{ RecvMsg(m any) error }, reader *limits.Reader) (release func(), err error) {
	a := admitted{m, reader.Admit()}
	return a.Result(stream.RecvMsg(a))
}

// response is one message about a collection.
type response struct {
	collection, version, nonce string
	incremental                bool
	resources                  []byte // as fields of the message, see field
	removed                    []string
}

// wire is one of the forms of the protocol, over one stream.
type wire interface {
	recv() (*request, error)
	// message is a response as it is sent.
	message(*response) proto.Message
	send(proto.Message) error
	// field is the number of the resources in a message.
	field() protowire.Number
	// wholes tells whether a response can be the whole of a collection, which replaces what the sink has.
	wholes() bool
}

// exchange is a stream of the newer form. The source is its server (ResourceSource), or its client (ResourceSink).
type exchange struct {
	stream interface {
		Send(*legacyv1.Resources) error
		RecvMsg(m any) error
	}
	reader *limits.Reader
	heard  func() // is called when the sink says something, if it is not nil
}

func (exchange) field() protowire.Number { return 3 }
func (exchange) wholes() bool            { return true }

func (e exchange) recv() (*request, error) {
	for {
		m := &legacyv1.RequestResources{}
		release, err := receiveInto(m, e.stream, e.reader)
		if err != nil {
			return nil, err
		}
		if e.heard != nil {
			e.heard()
		}
		if !refusesTrigger(m) {
			return &request{
				sink: m.GetSinkNode().GetId(), collection: m.GetCollection(), nonce: m.GetResponseNonce(), failure: m.GetErrorDetail(),
				incremental: m.GetIncremental(), held: m.GetInitialResourceVersions(), release: release,
			}, nil
		}
		if release != nil {
			release()
		}
	}
}

// refusesTrigger tells whether a sink answers what only was to make it ask. The first releases named no collection there.
func refusesTrigger(m *legacyv1.RequestResources) bool {
	return (m.GetCollection() == legacyv1.TriggerCollection || m.GetCollection() == "") &&
		codes.Code(m.GetErrorDetail().GetCode()) == codes.Unimplemented
}

func (exchange) message(r *response) proto.Message {
	return withResources(&legacyv1.Resources{
		SystemVersionInfo: r.version, Collection: r.collection, Nonce: r.nonce, Incremental: r.incremental, RemovedResources: r.removed,
	}, r.resources)
}

func (e exchange) send(m proto.Message) error { return e.stream.Send(m.(*legacyv1.Resources)) }

// withResources adds resources that are encoded already, which spares decoding thousands for each sink.
func withResources(m proto.Message, fields []byte) proto.Message {
	m.ProtoReflect().SetUnknown(fields)
	return m
}

// receive reads requests until the stream ends, and closes the second channel then. The first is not buffered: a sink that asks faster
// than it is answered is slowed down by gRPC's own flow control.
func receive(ctx context.Context, w wire) (<-chan *request, <-chan error) {
	requests, failed := make(chan *request), make(chan error, 1)
	go func() {
		defer close(failed)
		for {
			r, err := panics.Receive(w.recv)
			if err != nil {
				if errors.Is(err, io.EOF) {
					err = nil
				}
				failed <- err
				return
			}
			select {
			case requests <- r:
			case <-ctx.Done():
				r.done()
				return
			}
		}
	}()
	return requests, failed
}
