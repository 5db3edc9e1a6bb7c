package gatewayapi

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What an unchecked source has as a path cannot end the path of a request.
func TestPathsBeforeOthersAreWhole(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "//": "", "check": "/check", "/a/b/": "/a/b", "a?b": "/a%3Fb", "a%20b#c": "/a%20b%23c", "a b\r\n": "/a%20b%0D%0A", "%2f": "/%2f", "%zz": "/%25zz",
	} {
		require.Equal(t, want, pathPrefix(text), text)
	}
}
