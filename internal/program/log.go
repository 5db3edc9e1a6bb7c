package program

import (
	"fmt"
	"io"
	"log" //nolint:depguard // redirects what libraries log to slog
	"log/slog"
	"os"
	"strconv"

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
	if format, _ := cmd.Flags().GetString(formatFlag); format != "" && format != "text" && format != "json" {
		fmt.Fprintf(os.Stderr, "--log-format %s: choose text or json; logging text\n", format)
	}
	if name, _ := cmd.Flags().GetString(levelFlag); name != "" {
		if err := level.UnmarshalText([]byte(name)); err != nil {
			fmt.Fprintf(os.Stderr, "--log-level %s: choose debug, info, warn or error; logging at info\n", name)
		}
	}
	var lines slog.Handler = slog.NewTextHandler(out, &slog.HandlerOptions{Level: level, ReplaceAttr: alike})
	if LogsJSON(cmd) {
		lines = JSONLines(out, level)
	}
	to := slog.New(terse.NewHandler(lines))
	panics.LogTo(to)
	return to
}

// LogsJSON reports whether the flags ask for a log in JSON.
func LogsJSON(cmd *cobra.Command) bool {
	format, _ := cmd.Flags().GetString(formatFlag)
	return format == "json"
}

// JSONLines writes records as programs log them in JSON.
func JSONLines(out io.Writer, level slog.Leveler) slog.Handler {
	return slog.NewJSONHandler(terminal.NewWriter(out, nil), &slog.HandlerOptions{Level: level, ReplaceAttr: alike}) // slog's text handler escapes by itself
}

// alike makes values alike in all lines, whoever logs them and in both forms: times are in UTC,
// durations are texts such as 1.5s, and revisions are numbers.
func alike(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value; {
	case v.Kind() == slog.KindTime:
		a.Value = slog.TimeValue(v.Time().UTC())
	case v.Kind() == slog.KindDuration:
		a.Value = slog.StringValue(v.Duration().String())
	case a.Key == "revision" && v.Kind() == slog.KindString:
		if number, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			a.Value = slog.Int64Value(number)
		}
	}
	return a
}
