// Mcp-client reads, watches and changes the configuration of a mesh over MCP, Istio's Mesh
// Configuration Protocol.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/pgmesh/pgmesh/mcp-client/cli"
)

//go:generate sh -c "go run . reference > ../docs/cli.md"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)                                                            // a second signal ends the program at once
	program := cli.Program{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv} //nolint:forbidigo // contexts, editors and colours have variables, too
	code := program.Run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
