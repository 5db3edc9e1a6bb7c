// Package change sends changes of a mesh to its server, and prints what became of them.
package change

import (
	"fmt"
	"os/user"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/internal/kit/days"
)

// Options are the flags of a command that changes resources.
type Options struct {
	Message       string
	DryRun        bool
	confirmWithin time.Duration // 0 keeps the change without confirmation
	wait          waiting
}

// DeclareFlags declares --message and --dry-run.
func (o *Options) DeclareFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.Message, "message", "m", "", "why, to be kept with the revision")
	DryRunFlag(cmd.Flags(), &o.DryRun, "let the server check everything, and change nothing")
}

// DeclareConfirm declares --confirm-within, for changes that may be confirmed.
func (o *Options) DeclareConfirm(cmd *cobra.Command) {
	days.Var(cmd.Flags(), &o.confirmWithin, "confirm-within", 0, "take the change back by itself, unless mcp-client confirm is called within this time, such as 5m")
}

// Confirmation returns the time within which the change must be confirmed, nil if it need not be.
func (o *Options) Confirmation() *durationpb.Duration {
	if o.confirmWithin == 0 || o.DryRun {
		return nil
	}
	return durationpb.New(o.confirmWithin)
}

// confirmHint says until when and how to confirm a change.
func confirmHint(by *timestamppb.Timestamp, revision int64) string {
	if by == nil || revision == 0 {
		return ""
	}
	return fmt.Sprintf("it goes away at %s unless it is confirmed: mcp-client confirm %d\n", by.AsTime().Local().Format(time.TimeOnly), revision) //nolint:gosmopolitan // for people
}

// Author is who made the change, for a server that does not know the caller: the user's name on
// this machine.
func Author() string {
	u, err := user.Current()
	if err != nil {
		return "" // the server then records the address
	}
	return u.Username
}
