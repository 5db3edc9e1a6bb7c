package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/mesh-agent/host/check"
	"github.com/pgmesh/pgmesh/mesh-agent/host/unit"
)

// judged says for whom a machine is judged.
type judged struct {
	unit string
	// clock is set for the process that runs as the unit would. It is what the kernel says of its
	// clock, which it tells root, and may not tell the unit.
	clock string
}

const (
	clockFlag      = "clock" // hidden
	synchronized   = "synchronized"
	unsynchronized = "unsynchronized"
)

func (j *judged) declare(cmd *cobra.Command) {
	cmd.Flags().StringVar(&j.unit, "unit", "mesh-agent.service", "the unit of systemd that runs the agent; empty to judge what this process may do")
	cmd.Flags().StringVar(&j.clock, clockFlag, "", "")
	_ = cmd.Flags().MarkHidden(clockFlag) // it is there
}

// synchronized reports whether the kernel's clock is kept synchronized.
func (j *judged) synchronized() (bool, error) {
	switch j.clock {
	case "":
		return check.Synchronized()
	case synchronized, unsynchronized:
		return j.clock == synchronized, nil
	default:
		return false, errors.New(j.clock)
	}
}

// judge has the machine looked at for the account that counts, and says first which that was.
func (j *judged) judge(ctx context.Context, look func() []check.Finding) []check.Finding {
	if j.clock != "" {
		return look()
	}
	u, account := j.find(ctx)
	if u == nil {
		return append([]check.Finding{account}, look()...)
	}
	found, err := lookAs(ctx, u)
	if err != nil {
		return []check.Finding{{
			Part: account.Part, State: check.Failure, Says: fmt.Sprintf("what the agent may do cannot be told: %v", err),
			Do: "correct the unit, or what it may not read; --unit '' judges what this process may do, and not the unit's",
		}}
	}
	return append([]check.Finding{account}, found...)
}

// find returns the unit to judge for, nil if that cannot be done, and what to say of it.
func (j *judged) find(ctx context.Context) (*unit.Unit, check.Finding) {
	who, as := "the account "+fmt.Sprint(os.Geteuid()), check.Finding{Part: "account", State: check.Warning}
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	if j.unit == "" {
		as.State, as.Says = check.OK, "judged for "+who+", as this process runs"
		return nil, as
	}
	u, err := unit.Find(ctx, j.unit)
	switch {
	case err != nil:
		as.Says, as.Do = fmt.Sprintf("judged for %s, as this process runs, for nobody says who runs the agent: %v", who, err), "name its unit by --unit, or run this as the agent's account, with --unit ''"
		return nil, as
	case os.Geteuid() != 0:
		as.Says, as.Do = fmt.Sprintf("judged for %s, as this process runs, and not for %s, as the unit %s runs the agent", who, u.Account(), u.Name), "run this as root: sudo mesh-agent check"
		return nil, as
	}
	as.State, as.Says = check.OK, fmt.Sprintf("judged for %s, as the unit %s runs the agent: its capabilities, limits and variables, and what it sees of the machine", u.Account(), u.Name)
	return u, as
}

// lookAs has this program look again, as the unit would run it.
func lookAs(ctx context.Context, u *unit.Unit) (found []check.Finding, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	clock := unsynchronized
	switch is, err := check.Synchronized(); {
	case err != nil:
		clock = err.Error()
	case is:
		clock = synchronized
	}
	output, failed := u.Output(ctx, program, append(os.Args[1:], "--output=json", "--"+clockFlag+"="+clock)...)
	if err := json.Unmarshal(output, &found); err != nil { // its exit code is 1, too, where it has found a failure
		return nil, errors.Join(failed, err)
	}
	return found, nil
}
