package kinds_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds"
)

func TestAnnotatedSelectors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]map[string]string{
		"": nil, "app": nil, "=web": nil, "app=web,": nil,
		"app=web": {"app": "web"}, "app=web,tier=": {"app": "web", "tier": ""},
	} {
		require.Equal(t, want, kinds.AnnotatedSelector(map[string]string{kinds.SelectorAnnotation: text}), text)
	}
}
