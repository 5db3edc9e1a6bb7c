package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

const (
	// mostOutput is how much of what a command writes is kept, for people to read.
	mostOutput = 4 << 10
	// killWithin is how long a command's children may hold its output open when it has ended.
	killWithin = 500 * time.Millisecond
)

// execute runs a command, and ends it with all that it has started if it takes too long.
func execute(ctx context.Context, command []string) error {
	if len(command) == 0 {
		return errors.New("the command is empty")
	}
	var said tail
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &said, &said, killWithin
	alone(cmd)
	err := cmd.Run()
	if err == nil || errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil { // a child of it lives on with the output
		return nil
	}
	text := fmt.Sprintf("%s: %v", command[0], err)
	if words := strings.Join(strings.Fields(said.String()), " "); words != "" {
		text += ": " + words
	}
	return errors.New(text)
}

// tail keeps the end of what is written.
type tail struct{ kept bytes.Buffer }

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.kept.Write(p)
	if over := t.kept.Len() - mostOutput; over > 0 {
		t.kept.Next(over)
	}
	return len(p), nil
}

func (t *tail) String() string { return t.kept.String() }
