package program_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/program"
)

// A peer's message may be forty megabytes long, and there may be a thousand a second.
func TestLogsOfPeersAreBounded(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			cmd := &cobra.Command{}
			cmd.Flags().String("log-format", format, "")
			var out bytes.Buffer
			log := program.LogTo(cmd, &out)
			for range 1000 {
				log.Warn("a proxy refuses what it was sent", "node", "cart", "error", strings.Repeat("x", 1<<20))
			}
			require.Contains(t, out.String(), "a proxy refuses what it was sent")
			require.Less(t, out.Len(), 1<<16, "a thousand complaints of a mebibyte each")
		})
	}
}
