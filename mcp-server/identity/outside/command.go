// Package outside runs external programs that hold a key and use it for mcp-server: the command of
// a KMS, or the tool of a PKCS #11 token. They read their input from standard input, and write
// their answer to standard output.
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

	"github.com/pgmesh/pgmesh/internal/kit/process"
)

const (
	// Timeout bounds a command.
	Timeout = 30 * time.Second
	// MaxOutput bounds a command's answer: an encrypted key or a signature has a few hundred bytes.
	MaxOutput = 64 << 10
	// maxComplaint bounds what an error quotes from standard error.
	maxComplaint = 500
	// maxStderr bounds what is read from standard error. It is more than maxComplaint, so that a
	// secret is removed before the text is cut, and none is cut in two.
	maxStderr = 64 << 10
)

// ErrNoOutput is the error of a command that succeeded without an answer.
var ErrNoOutput = errors.New("it wrote nothing")

// Command is a program and its first arguments.
type Command struct{ words []string }

// Parse reads a command whose words are separated by spaces.
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

// Of returns the command that is a program without arguments.
func Of(program string) *Command { return &Command{[]string{program}} }

// String returns the program alone, because its arguments may be private.
func (c *Command) String() string { return c.words[0] }

// Call is one run of a command.
type Call struct {
	What  string   // what the run does, for errors
	Args  []string // after those of the command
	Env   []string // added to the server's environment without its PGMESH_ variables
	Input []byte
}

// Run runs a command and returns its answer. The error quotes standard error, but never the input
// or the answer.
func (c *Command) Run(ctx context.Context, call Call) ([]byte, error) {
	cmd := exec.Command(c.words[0], slices.Concat(c.words[1:], call.Args)...)
	output, complaint := &limited{left: MaxOutput + 1}, &limited{left: maxStderr}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(call.Input), output, complaint
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PGMESH_") }), call.Env...)
	cmd.WaitDelay = time.Second // for children that keep its output open
	p, err := process.Start(cmd)
	if err != nil {
		return nil, err
	}
	late := time.NewTimer(Timeout)
	defer late.Stop()
	select {
	case <-p.Done():
	case <-late.C:
		p.Kill()
		return nil, fmt.Errorf("%s %s: it was not done within %s%s", c, call.What, Timeout, complaintOf(complaint, call.Input, output.Bytes()))
	case <-ctx.Done():
		p.Kill()
		return nil, ctx.Err()
	}
	switch {
	case p.Err() != nil:
		return nil, fmt.Errorf("%s %s: %w%s", c, call.What, p.Err(), complaintOf(complaint, call.Input, output.Bytes()))
	case output.Len() == 0:
		return nil, fmt.Errorf("%s %s: %w%s", c, call.What, ErrNoOutput, complaintOf(complaint, call.Input, output.Bytes()))
	case output.Len() > MaxOutput:
		return nil, fmt.Errorf("%s %s: it wrote more than %d bytes", c, call.What, MaxOutput)
	}
	return output.Bytes(), nil
}

// complaintOf returns what a command wrote to standard error, without secrets.
func complaintOf(complaint *limited, secrets ...[]byte) string {
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

// limited keeps the beginning of what is written to it, and drops the rest.
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
