// Package program has what all programs share: flags that are also PGMESH_ variables, logging, signals and
// exit codes.
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log" //nolint:depguard // redirects what libraries log to slog
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/grpclog"

	"github.com/pgmesh/pgmesh/internal/kit/coredump"
	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/internal/kit/terse"
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
	root.PersistentFlags().String("log-level", "info", "how much to log: debug, info, warn or error")
	root.PersistentFlags().String("log-format", "text", "how to log: text or json")
	coredump.Flag(root.PersistentFlags())
	root.AddCommand(manual.Command(Version))
	return root
}

// forbidCores makes a command forbid core dumps before it does anything else. It waits until the command's
// flags are final, because a file that sets them may allow core dumps.
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

// StateDirectory returns the state folder that systemd created for the service, or "".
func StateDirectory() string {
	first, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":")
	return first
}

// From is the annotation of a flag that was not set on the command line. It says where the value came from.
const From = "from"

// FromEnvironment sets the flags that the command line did not set from their PGMESH_ variables.
func FromEnvironment(flags *pflag.FlagSet) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		name := "PGMESH_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, set := os.LookupEnv(name)
		if !set || f.Changed || err != nil {
			return
		}
		if e := flags.Set(f.Name, value); e != nil {
			err = fmt.Errorf("%s=%q: %w", name, value, e)
			return
		}
		_ = flags.SetAnnotation(f.Name, From, []string{name}) // the flag is there
	})
	return err
}

// Log returns the logger that the flags describe, to standard error. It also redirects panics and the logs of
// libraries to it.
func Log(cmd *cobra.Command) *slog.Logger {
	to := LogTo(cmd, os.Stderr)
	log.SetFlags(0)
	log.SetOutput(terse.Writer{Log: to})
	if os.Getenv("GRPC_GO_LOG_SEVERITY_LEVEL") == "" { // not set: log only errors of gRPC
		grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, terse.Writer{Log: to}))
	}
	return to
}

// LogTo returns a logger to another writer. It bounds the length and the rate of what peers can make it
// write.
func LogTo(cmd *cobra.Command, out io.Writer) *slog.Logger {
	level := slog.LevelInfo
	if name, _ := cmd.Flags().GetString("log-level"); name != "" {
		if err := level.UnmarshalText([]byte(name)); err != nil {
			fmt.Fprintf(os.Stderr, "--log-level %s: choose debug, info, warn or error; logging at info\n", name)
		}
	}
	opts := &slog.HandlerOptions{Level: level}
	var lines slog.Handler = slog.NewTextHandler(out, opts)
	if format, _ := cmd.Flags().GetString("log-format"); format == "json" {
		lines = slog.NewJSONHandler(terminal.NewWriter(out, nil), opts) // slog's text handler escapes by itself
	}
	to := slog.New(terse.NewHandler(lines))
	panics.LogTo(to)
	return to
}

// Exit is the error of a command that has printed everything already and sets its own exit code.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Main runs a program until it is done, or until SIGINT or SIGTERM. It prints the error, if any, and returns
// the exit code. A second signal ends the program at once.
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
