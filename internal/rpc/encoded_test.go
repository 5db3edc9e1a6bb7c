package rpc

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// ready is a message that is encoded already, as something else than it would be encoded as.
type ready struct {
	*wrapperspb.StringValue

	pieces mem.BufferSlice
}

func (r *ready) Encoded() mem.BufferSlice { return r.pieces }

func TestWhatIsEncodedIsPassedOn(t *testing.T) {
	t.Parallel()
	whole, err := proto.Marshal(wrapperspb.String("encoded before"))
	require.NoError(t, err)
	m := &ready{wrapperspb.String("never encoded"), mem.BufferSlice{mem.SliceBuffer(whole[:5]), mem.SliceBuffer(whole[5:])}}

	sent, err := newCodec().Marshal(m)
	require.NoError(t, err)
	require.Same(t, &whole[0], &sent[0].ReadOnlyData()[0], "nothing is copied")

	got := &wrapperspb.StringValue{}
	require.NoError(t, newCodec().Unmarshal(sent, got))
	require.Equal(t, "encoded before", got.GetValue())
}

func TestOtherMessagesAreEncodedAsAlways(t *testing.T) {
	t.Parallel()
	sent, err := newCodec().Marshal(wrapperspb.String("text"))
	require.NoError(t, err)
	want, err := proto.Marshal(wrapperspb.String("text"))
	require.NoError(t, err)
	require.Equal(t, want, sent.Materialize())
}
