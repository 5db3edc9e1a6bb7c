package convert_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/convert"
)

// The example of docs/convert.md becomes what the page says, with the warnings that it says.
func TestThePageIsTrue(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/convert.md")
	require.NoError(t, err)
	blocks := map[string]string{}
	for _, m := range regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		blocks[m[1]] = m[2]
	}
	r, err := convert.Files([]convert.File{{Name: "nginx.conf", Data: []byte(blocks["nginx"])}}, nil, convert.Options{Namespace: "shop", Class: "pgmesh", Gateway: "edge"})
	require.NoError(t, err)
	var told strings.Builder
	for _, v := range r.Lost {
		told.WriteString("warning: " + v.Error() + "\n")
	}
	require.Equal(t, blocks["text"], told.String())
	require.Empty(t, r.Notes)
	require.Len(t, r.Documents, 4)
	route, err := kinds.MarshalYAML(r.Documents[3].Resource)
	require.NoError(t, err)
	require.Equal(t, blocks["yaml"], string(route))
}
