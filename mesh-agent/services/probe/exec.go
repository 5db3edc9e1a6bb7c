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
	// maxOutput is how much of a command's output is kept for the error.
	maxOutput = 4 << 10
	// waitDelay is how long children may hold the output open after the command ended.
	waitDelay = 500 * time.Millisecond
)

// execute runs a command, and kills it with all its children when the context ends.
func execute(ctx context.Context, command []string) error {
	if len(command) == 0 {
		return errors.New("the command is empty")
	}
	var output tail
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &output, &output, waitDelay
	inOwnGroup(cmd)
	err := cmd.Run()
	if err == nil || errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil { // a child lives on and holds the output
		return nil
	}
	text := fmt.Sprintf("%s: %v", command[0], err)
	if words := strings.Join(strings.Fields(output.String()), " "); words != "" {
		text += ": " + words
	}
	return errors.New(text)
}

// tail keeps the end of what is written.
type tail struct{ kept bytes.Buffer }

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.kept.Write(p)
	if over := t.kept.Len() - maxOutput; over > 0 {
		t.kept.Next(over)
	}
	return len(p), nil
}

func (t *tail) String() string { return t.kept.String() }
