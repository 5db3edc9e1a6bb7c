package wellformed_test

import (
	"math/rand/v2"
	"os"
	"testing"

	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	mcp "istio.io/api/mcp/v1alpha1"

	"github.com/pgmesh/pgmesh/internal/kit/wellformed"
	"github.com/pgmesh/pgmesh/kinds"
)

// messages are those of all kinds, and the envelope that they travel in.
func messages() []proto.Message {
	list := []proto.Message{&mcp.Resource{}}
	for _, k := range kinds.All() {
		if k.Message != "" {
			list = append(list, k.NewSpec())
		}
	}
	// The Struct is what all other kinds have; the last has a list of numbers of a fixed size,
	// which no kind has.
	return append(list, &structpb.Struct{}, &metricsv3.HistogramBucketSettings{})
}

// examples are the specs of one resource of each kind, as they travel.
func examples(t testing.TB) [][]byte {
	t.Helper()
	const path = "../../../kinds/testdata/every-kind.yaml"
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	documents, err := kinds.Parse(path, content)
	require.NoError(t, err)
	var all [][]byte
	for _, d := range documents {
		envelope, err := d.Resource.MCP("1")
		require.NoError(t, err)
		wrapped, err := proto.Marshal(envelope)
		require.NoError(t, err)
		all = append(all, envelope.GetBody().GetValue(), wrapped)
	}
	return all
}

// agree fails unless the shape of a message and the decoder say the same of bytes.
func agree(t *testing.T, m proto.Message, b []byte) {
	t.Helper()
	takes, err := wellformed.Of(m.ProtoReflect().Descriptor()).Takes(b), proto.Unmarshal(b, m.ProtoReflect().New().Interface())
	require.Equal(t, err == nil, takes, "%s: %x: %v", m.ProtoReflect().Descriptor().FullName(), b, err)
}

// Bytes of whatever message, cut, changed and put together at random, are taken for each message
// exactly if they can be decoded.
func TestTakesWhatCanBeDecoded(t *testing.T) {
	t.Parallel()
	all := examples(t)
	for _, m := range messages() {
		dice, taken, refused := rand.New(rand.NewPCG(1, 2)), 0, 0
		for range 20_000 {
			b := mutated(dice, all)
			agree(t, m, b)
			if wellformed.Of(m.ProtoReflect().Descriptor()).Takes(b) {
				taken++
			} else {
				refused++
			}
		}
		require.NotZero(t, taken, "%T", m)
		require.NotZero(t, refused, "%T", m)
	}
}

// mutated is one of many with a few bytes of it changed, taken out, or put in from another.
func mutated(dice *rand.Rand, all [][]byte) []byte {
	b := append([]byte{}, all[dice.IntN(len(all))]...)
	for range dice.IntN(4) {
		if len(b) == 0 {
			break
		}
		at := dice.IntN(len(b))
		switch dice.IntN(4) {
		case 0:
			b[at] = byte(dice.Uint32())
		case 1:
			b[at] ^= 1 << dice.IntN(8)
		case 2:
			b = append(b[:at], b[min(len(b), at+1+dice.IntN(4)):]...)
		case 3:
			other := all[dice.IntN(len(all))]
			b = append(append(append([]byte{}, b[:at]...), other[dice.IntN(len(other)+1):]...), b[at:]...)
		}
	}
	return b
}

// The decoder's limit of nesting is met to the level, in messages, in maps, and in what is no map
// but has the number of one.
func TestNestingEndsWhereTheDecoderEndsIt(t *testing.T) {
	t.Parallel()
	const (
		fields, value          = 1, 2 // of google.protobuf.Struct, and of an entry of that map
		structValue, listValue = 5, 6 // of google.protobuf.Value
		listValues             = 1    // of google.protobuf.ListValue
	)
	// The numbers are those of the messages from the outermost on.
	nested := func(levels int, innermost []byte, numbers ...protowire.Number) []byte {
		sizes := make([]int, levels+1) // of what is within the level
		sizes[levels] = len(innermost)
		for i := levels - 1; i >= 0; i-- {
			sizes[i] = protowire.SizeTag(1) + protowire.SizeBytes(sizes[i+1])
		}
		var b []byte
		for i := range levels {
			b = protowire.AppendTag(b, numbers[i%len(numbers)], protowire.BytesType)
			b = protowire.AppendVarint(b, uint64(sizes[i+1]))
		}
		return append(b, innermost...)
	}
	notAMap := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
	for levels := protowire.DefaultRecursionLimit - 8; levels < protowire.DefaultRecursionLimit+8; levels++ {
		for _, innermost := range [][]byte{nil, {0}, notAMap} {
			agree(t, &structpb.Value{}, nested(levels, innermost, listValue, listValues))
			agree(t, &structpb.Struct{}, nested(levels, innermost, fields, value, structValue))
		}
	}
}

func FuzzTakes(f *testing.F) {
	of := messages()
	for _, b := range examples(f) {
		for i := range of {
			f.Add(i, b)
		}
	}
	f.Fuzz(func(t *testing.T, i int, b []byte) { agree(t, of[uint(i)%uint(len(of))], b) })
}

func BenchmarkTakes(b *testing.B) {
	all := examples(b)
	shape := wellformed.Of((&mcp.Resource{}).ProtoReflect().Descriptor())
	bytes := 0
	for _, one := range all {
		bytes += len(one)
	}
	b.SetBytes(int64(bytes))
	b.ReportAllocs()
	for b.Loop() {
		for _, one := range all {
			shape.Takes(one)
		}
	}
}
