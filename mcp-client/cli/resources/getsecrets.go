package resources

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/selector"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/secrets"
)

// getSecrets is get of secrets, which are not read over MCP. Flags that it cannot honour are refused: whoever deletes what it
// lists would delete more than was meant.
func (p program) getSecrets(cmd *cobra.Command, args []string, g getting, labels string) error {
	for _, flag := range []string{"field-selector", "origin", "sort-by", "watch", "label-columns", "show-labels"} {
		if cmd.Flags().Changed(flag) {
			return failure.Usage(cmd, fmt.Errorf("get of secrets does not take --%s: -l chooses by labels, and -o json has what is known of each", flag))
		}
	}
	chosen, err := selector.Parse(labels)
	if err != nil {
		return failure.Usage(cmd, err)
	}
	return secrets.List(cmd, p.Session, args, secrets.Choice{Labels: chosen, IgnoreMissing: g.ignoreMissing, Single: true})
}
