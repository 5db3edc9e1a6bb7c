package clitest

import (
	"bufio"
	"context"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mcp-client/cli"
)

// Watching is a running watch whose output can be waited for.
type Watching struct {
	t         *testing.T
	Out, Err  *bufio.Scanner
	Interrupt func() int
}

// Watch starts watch.
func (m *Mesh) Watch(args ...string) *Watching {
	m.t.Helper()
	return m.Follow(append([]string{"watch"}, args...)...)
}

// Follow starts a command that runs until it is interrupted.
func (m *Mesh) Follow(args ...string) *Watching {
	m.t.Helper()
	out, toOut := io.Pipe()
	err, toErr := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	code := make(chan int, 1)
	go func() {
		program := cli.Program{In: strings.NewReader(""), Out: toOut, Err: toErr, Getenv: func(string) string { return "" }}
		code <- program.Run(ctx, append(args, "--server", m.Address, "--insecure"))
	}()
	w := &Watching{m.t, bufio.NewScanner(out), bufio.NewScanner(err), func() int {
		cancel()
		_, _ = out.Close(), err.Close()
		c := <-code
		code <- c
		return c
	}}
	m.t.Cleanup(func() { w.Interrupt() })
	return w
}

// Lines waits for the next n lines of a stream and removes their times.
func (w *Watching) Lines(from *bufio.Scanner, n int) []string {
	w.t.Helper()
	var lines []string
	for range n {
		require.True(w.t, from.Scan(), "the watch ended")
		lines = append(lines, stamp.ReplaceAllString(from.Text(), "<time>"))
	}
	return lines
}

var stamp = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}`)
