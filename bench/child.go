package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/pgmesh/pgmesh/internal/process"
)

// child is this program in another process, whose memory and time are those of one part alone.
type child struct {
	*process.Process

	in    io.WriteCloser
	lines *bufio.Scanner
}

func startChild(args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c := &child{in: in, lines: bufio.NewScanner(out)}
	c.Process, err = process.Start(cmd)
	return c, err
}

// line reads the next line of what the child says.
func (c *child) line() (string, error) {
	if !c.lines.Scan() {
		return "", fmt.Errorf("the process has ended: %w", c.lines.Err())
	}
	return c.lines.Text(), nil
}

func (c *child) round() (r round, err error) {
	line, err := c.line()
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal([]byte(line), &r)
}

func (c *child) stop() {
	c.in.Close()
	c.Stop(time.Second)
}

// answer runs this program in another process until it has said what it found out.
func answer(ctx context.Context, into any, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	return json.Unmarshal(out, into)
}
