package translate_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
)

// TestOrderOfArrivalDoesNotMatter shuffles the resources of all inputs: the bytes stay the same.
func TestOrderOfArrivalDoesNotMatter(t *testing.T) {
	t.Parallel()
	var all input
	for _, file := range inputs(t) {
		in := readInput(t, file)
		all.Proxy = in.Proxy
		all.resources = append(all.resources, in.resources...)
	}
	for i, r := range all.resources {
		r.Name += "-" + string(rune('a'+i%26)) + string(rune('a'+i/26)) // inputs share names
	}
	first := all.translate(t, all.resources)
	first.requireValid(t)
	want := encode(t, first)
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		random.Shuffle(len(all.resources), func(i, j int) {
			all.resources[i], all.resources[j] = all.resources[j], all.resources[i]
		})
		require.Equal(t, want, encode(t, all.translate(t, all.resources)))
	}
}

func encode(t *testing.T, o output) map[string][][]byte {
	t.Helper()
	out := map[string][][]byte{}
	for kind, list := range o.byKind() {
		for _, m := range list {
			bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
			require.NoError(t, err)
			out[kind] = append(out[kind], bytes)
		}
	}
	return out
}
