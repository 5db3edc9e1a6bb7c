package program

import (
	"fmt"
	"io"
	"log" //nolint:depguard // redirects what libraries log to slog
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/grpclog"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/internal/kit/terse"
)

const (
	levelFlag  = "log-level"
	formatFlag = "log-format"
)

func logFlags(flags *pflag.FlagSet) {
	flags.String(levelFlag, "info", "how much to log: debug, info, warn or error")
	flags.String(formatFlag, "text", "how to log: text or json")
}

// Log returns the logger that the flags describe, to standard error. It also redirects panics and
// the logs of libraries to it.
func Log(cmd *cobra.Command) *slog.Logger {
	to := LogTo(cmd, os.Stderr)
	log.SetFlags(0)
	log.SetOutput(terse.Writer{Log: to})
	if os.Getenv("GRPC_GO_LOG_SEVERITY_LEVEL") == "" { // not set: log only errors of gRPC
		grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, terse.Writer{Log: to}))
	}
	return to
}

// LogTo returns a logger to another writer. It bounds the length and the rate of what peers can
// make it write.
func LogTo(cmd *cobra.Command, out io.Writer) *slog.Logger {
	level := slog.LevelInfo
	if name, _ := cmd.Flags().GetString(levelFlag); name != "" {
		if err := level.UnmarshalText([]byte(name)); err != nil {
			fmt.Fprintf(os.Stderr, "--log-level %s: choose debug, info, warn or error; logging at info\n", name)
		}
	}
	opts := &slog.HandlerOptions{Level: level}
	var lines slog.Handler = slog.NewTextHandler(out, opts)
	if format, _ := cmd.Flags().GetString(formatFlag); format == "json" {
		lines = slog.NewJSONHandler(terminal.NewWriter(out, nil), opts) // slog's text handler escapes by itself
	}
	to := slog.New(terse.NewHandler(lines))
	panics.LogTo(to)
	return to
}
