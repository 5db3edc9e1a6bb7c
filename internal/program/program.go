// Package program has what all programs share: flags that are also PGMESH_ variables, logging,
// signals and exit codes.
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/kit/coredump"
	"github.com/pgmesh/pgmesh/internal/kit/nearest"
	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/internal/kit/version"
	"github.com/pgmesh/pgmesh/internal/manual"
)

// New returns the root command of a program.
func New(name, short string) *cobra.Command {
	root := &cobra.Command{
		Use: name, Short: short, Version: Version(), SilenceUsage: true, SilenceErrors: true,
		Long: short + ".\n\nEach flag can also be given as a variable: --some-flag as PGMESH_SOME_FLAG. A flag wins over a variable.",
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			forbidCores(cmd)
			return FromEnvironment(cmd.Flags())
		},
	}
	root.SetOut(terminal.NewWriter(os.Stdout, nil))
	root.SetErr(terminal.NewWriter(os.Stderr, nil))
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w (see %s --help)", nearest.Flag(cmd.Flags(), err), cmd.CommandPath())
	})
	logFlags(root.PersistentFlags())
	coredump.Flag(root.PersistentFlags())
	root.AddCommand(versionCommand(), manual.Command(Version))
	return root
}

// forbidCores makes a command forbid core dumps before it does anything else. It waits until the
// command's flags are final, because a file that sets them may allow core dumps.
func forbidCores(cmd *cobra.Command) {
	do := cmd.RunE
	if do == nil {
		return
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := coredump.ForbidUnlessAllowed(cmd.Flags()); err != nil {
			return err
		}
		return do(cmd, args)
	}
}

// Version returns the version of the running program.
func Version() string { return version.Of() }

// Exit is the error of a command that has printed everything already and sets its own exit code.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Main runs a program until it is done, or until SIGINT or SIGTERM. It prints the error, if any,
// and returns the exit code. A second signal ends the program at once.
func Main(root *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	err := root.ExecuteContext(ctx)
	if code, ok := errors.AsType[Exit](err); ok {
		return int(code)
	}
	if err != nil {
		fmt.Fprintf(root.ErrOrStderr(), "%s: %v\n", root.Name(), err)
		return 1
	}
	return 0
}
