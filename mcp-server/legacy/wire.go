package legacy

import (
	"context"
	"errors"
	"io"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/internal/limits"
	legacyv1 "github.com/pgmesh/pgmesh/proto/istio/mcp/v1alpha1"
)

// request is a request of any form of the protocol.
type request struct {
	sink        string // the sink's name for itself
	collection  string // its name, or in Istio 1.0 a type URL
	nonce       string
	failure     *status.Status    // set in a NACK
	incremental bool              // the next response may hold only changes
	held        map[string]string // the names and versions that the sink has from an earlier stream
	version     string            // the version that the sink has, in forms that say so
	release     func()            // releases the memory of the request; may be nil
}

// free releases the memory of the request.
func (r *request) free() {
	if r.release != nil {
		r.release()
	}
}

// admitted is a message that is decoded once there is memory for it.
type admitted struct {
	proto.Message
	*limits.Admission
}

// Decode is called by the codec of package rpc.
func (a admitted) Decode(data []byte) error {
	return a.Decoded(data, func() error { return proto.Unmarshal(data, a.Message) })
}

// receiveInto receives a request, and returns the function that releases its memory.
func receiveInto(m proto.Message, stream interface{ RecvMsg(m any) error }, reader *limits.Reader) (release func(), err error) {
	a := admitted{m, reader.Admit()}
	return a.Result(stream.RecvMsg(a))
}

// response is one message about a collection.
type response struct {
	collection, version, nonce string
	incremental                bool
	resources                  []byte // encoded as fields of the message: see wire.field
	removed                    []string
}

// wire is one form of the protocol on one stream.
type wire interface {
	recv() (*request, error)
	// message returns the message for a response.
	message(*response) proto.Message
	send(proto.Message) error
	// field is the field number of the resources in a message.
	field() protowire.Number
	// sendsWholes reports whether a response can replace everything that the sink has of a
	// collection.
	sendsWholes() bool
}

// exchange is a stream of the newer form. The source is its server (ResourceSource) or its client
// (ResourceSink).
type exchange struct {
	stream interface {
		Send(*legacyv1.Resources) error
		RecvMsg(m any) error
	}
	reader *limits.Reader
	heard  func() // called for each message of the sink; may be nil
}

func (exchange) field() protowire.Number { return 3 }
func (exchange) sendsWholes() bool       { return true }

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

// refusesTrigger reports whether a sink refuses the trigger, which is sent only to make it ask. The
// first releases named no collection there.
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

// withResources adds resources that are encoded already, so that thousands need not be encoded
// again for each sink.
func withResources(m proto.Message, fields []byte) proto.Message {
	m.ProtoReflect().SetUnknown(fields)
	return m
}

// receive reads requests until the stream ends, and then closes the second channel. The first is
// unbuffered, so that gRPC's flow control slows down a sink that asks too fast.
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
				r.free()
				return
			}
		}
	}()
	return requests, failed
}
