// Package outside runs programs of others that have a key and use it for mcp-server: the command of a KMS, the tool of a token. They read what
// they are given from their standard input, and answer on their standard output.
package outside

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/internal/process"
)

const (
	// Patience is how long a command may take.
	Patience = 30 * time.Second
	// MaxOutput bounds what it writes: KMSs encrypt a key to a few hundred bytes, and signatures are as short.
	MaxOutput = 64 << 10
	// maxComplaint bounds what is repeated of what it says of itself.
	maxComplaint = 500
	// maxHeard is more than that, so that what is left out of it is never cut in two before.
	maxHeard = 64 << 10
)

// ErrSilent is the error of a command that has succeeded without an answer.
var ErrSilent = errors.New("it wrote nothing")

// Command is a program and its first arguments.
type Command struct{ words []string }

// Parse reads a command of words with spaces between.
func Parse(text string) (*Command, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, errors.New("there is no command in it")
	}
	if strings.ContainsAny(text, `"'$|;&<>`+"`\\") {
		return nil, errors.New("it is run without a shell, and so without quotes and variables: put them into a script, and name that")
	}
	if _, err := exec.LookPath(words[0]); err != nil {
		return nil, fmt.Errorf("%w: write its whole path", err)
	}
	return &Command{words}, nil
}

// Of is a program without arguments.
func Of(program string) *Command { return &Command{[]string{program}} }

// String is the program: what comes after it may be nobody's business.
func (c *Command) String() string { return c.words[0] }

// Call is what a command is run for.
type Call struct {
	What  string   // for errors
	Args  []string // after those of the command
	Env   []string // beside the server's own, without what is PGMESH_
	Input []byte
}

// Run asks a command. An error has what it said on standard error, and never what it was given and gave.
func (c *Command) Run(ctx context.Context, call Call) ([]byte, error) {
	cmd := exec.Command(c.words[0], slices.Concat(c.words[1:], call.Args)...)
	output, complaint := &limited{left: MaxOutput + 1}, &limited{left: maxHeard}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(call.Input), output, complaint
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PGMESH_") }), call.Env...)
	cmd.WaitDelay = time.Second // for those that it started and left behind with its output
	p, err := process.Start(cmd)
	if err != nil {
		return nil, err
	}
	late := time.NewTimer(Patience)
	defer late.Stop()
	select {
	case <-p.Done():
	case <-late.C:
		p.Kill()
		return nil, fmt.Errorf("%s %s: it was not done within %s%s", c, call.What, Patience, said(complaint, call.Input, output.Bytes()))
	case <-ctx.Done():
		p.Kill()
		return nil, ctx.Err()
	}
	switch {
	case p.Err() != nil:
		return nil, fmt.Errorf("%s %s: %w%s", c, call.What, p.Err(), said(complaint, call.Input, output.Bytes()))
	case output.Len() == 0:
		return nil, fmt.Errorf("%s %s: %w%s", c, call.What, ErrSilent, said(complaint, call.Input, output.Bytes()))
	case output.Len() > MaxOutput:
		return nil, fmt.Errorf("%s %s: it wrote more than %d bytes", c, call.What, MaxOutput)
	}
	return output.Bytes(), nil
}

// said is what a command complained of, without what must not be repeated.
func said(complaint *limited, secrets ...[]byte) string {
	text := strings.TrimSpace(complaint.String())
	for _, secret := range secrets {
		if secret = bytes.TrimSpace(secret); len(secret) > 0 {
			text = strings.ReplaceAll(text, string(secret), "[left out]")
			text = strings.ReplaceAll(text, base64.StdEncoding.EncodeToString(secret), "[left out]")
		}
	}
	if text == "" {
		return ""
	}
	return ": " + strings.ToValidUTF8(text[:min(len(text), maxComplaint)], "?")
}

// limited keeps the beginning of what is written.
type limited struct {
	bytes.Buffer

	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n, err := l.Buffer.Write(p[:min(len(p), l.left)])
	l.left -= n
	if err != nil {
		return n, err
	}
	return len(p), nil
}

var _ io.Writer = (*limited)(nil)
