package kinds

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// A Struct of a tree is the one that protojson reads from its JSON.
func TestStructOfTree(t *testing.T) {
	for _, text := range []string{
		`{}`,
		`{"none": null, "true": true, "text": "ä \" </p>", "nested": {"list": [1, -2.5, 1e21, 9007199254740993, [], {}, [{"deep": "x"}]]}}`,
	} {
		tree, err := readTree([]byte(text))
		require.NoError(t, err)
		made, err := structOf(tree.(map[string]any))
		require.NoError(t, err)
		read := &structpb.Struct{}
		require.NoError(t, read.UnmarshalJSON([]byte(text)))
		require.True(t, proto.Equal(read, made), "%s\n%s", read, made)
	}
}

func TestStructOfTreeRefusesWhatJSONCannotSay(t *testing.T) {
	tree, err := readTree([]byte(`{"weights": [1, 1e400]}`))
	require.NoError(t, err)
	_, err = structOf(tree.(map[string]any))
	require.ErrorContains(t, err, "weights: 1: ")
}
