// Package child runs the current program again in another process, so that its memory and time are
// those of one part only.
package child

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/process"
)

// Process is the other process. It communicates in lines, and ends when its standard input is
// closed.
type Process struct {
	*process.Process

	in    io.WriteCloser
	lines *bufio.Scanner
}

// Start starts this program with other arguments.
func Start(args ...string) (*Process, error) {
	cmd, err := again(context.Background(), args)
	if err != nil {
		return nil, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c := &Process{in: in, lines: bufio.NewScanner(out)}
	c.Process, err = process.Start(cmd)
	return c, err
}

// Line reads the next line of the process's output.
func (c *Process) Line() (string, error) {
	if !c.lines.Scan() {
		return "", fmt.Errorf("the process has ended: %w", c.lines.Err())
	}
	return c.lines.Text(), nil
}

// Read reads the next line as JSON.
func (c *Process) Read(into any) error {
	line, err := c.Line()
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(line), into)
}

// Send sends the process a line.
func (c *Process) Send(line string) error {
	_, err := io.WriteString(c.in, line+"\n")
	return err
}

// Stop stops the process and waits for its end.
func (c *Process) Stop() {
	c.in.Close()
	c.Process.Stop(time.Second)
}

// Answer runs this program in another process and decodes its output.
func Answer(ctx context.Context, into any, args ...string) error {
	cmd, err := again(ctx, args)
	if err != nil {
		return err
	}
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	return json.Unmarshal(out, into)
}

// again returns a command for this program with other arguments and the same standard error.
func again(ctx context.Context, args []string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stderr = os.Stderr
	return cmd, nil
}
