package seal

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

// command is that of a KMS. It is asked once for each key that is kept, when a server starts, and once more to make one.
type command struct{ words []string }

const (
	// commandPatience is how long it may take.
	commandPatience = 30 * time.Second
	// maxWrapped bounds what it writes: KMSs encrypt a key to a few hundred bytes.
	maxWrapped = 64 << 10
	// maxComplaint bounds what is repeated of what it says of itself.
	maxComplaint = 500
	// maxHeard is more than that, so that what is left out of it is never cut in two before.
	maxHeard = 64 << 10
)

// commandPrefix is what is kept of a key that a KMS has encrypted begins with.
const commandPrefix = "kms:"

func newCommand(text string) (*command, error) {
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
	return &command{words}, nil
}

func (c *command) sealing(keys []*key) bool { return len(keys) > 0 }

// unlock leaves out what cannot be decrypted, unless that is everything: a key that the KMS has lost takes along what it has sealed, and
// nothing else.
func (c *command) unlock(ctx context.Context, kept []Wrapped) (found []*key, err error) {
	var failures []error
	for _, w := range slices.Backward(kept) {
		text, own := strings.CutPrefix(w.Text, commandPrefix)
		if !own {
			continue
		}
		k, err := c.open(ctx, w, text)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		found = append(found, k)
	}
	if len(found) == 0 {
		return nil, errors.Join(failures...)
	}
	return found, nil
}

func (c *command) open(ctx context.Context, w Wrapped, text string) (*key, error) {
	wrapped, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errWrapped
	}
	line, err := c.run(ctx, "decrypt", wrapped)
	if err != nil {
		return nil, err
	}
	secret, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(line)))
	if err != nil || len(secret) != KeySize {
		return nil, fmt.Errorf("%s decrypt: what it wrote is not what its encrypt was given, which was a line of base64", c)
	}
	k, err := checked(w, secret)
	if err != nil {
		return nil, fmt.Errorf("%s decrypt: %w", c, err)
	}
	return k, nil
}

// wrap also decrypts what was encrypted: what is sealed by a key that never comes back is lost.
func (c *command) wrap(ctx context.Context) (Wrapped, error) {
	secret := newSecret()
	k, err := newKey(secret)
	if err != nil {
		return Wrapped{}, err
	}
	wrapped, err := c.run(ctx, "encrypt", []byte(base64.StdEncoding.EncodeToString(secret)+"\n"))
	if err != nil {
		return Wrapped{}, err
	}
	w := Wrapped{k.id, commandPrefix + base64.StdEncoding.EncodeToString(wrapped)}
	if bytes.Contains(wrapped, []byte(base64.StdEncoding.EncodeToString(secret))) {
		return Wrapped{}, fmt.Errorf("%s encrypt: it did not encrypt", c)
	}
	_, err = c.open(ctx, w, strings.TrimPrefix(w.Text, commandPrefix))
	return w, err
}

// String is the program: what comes after it may be nobody's business.
func (c *command) String() string { return c.words[0] }

// run asks the KMS. An error has what the command said on standard error, and never what it was given and gave.
func (c *command) run(ctx context.Context, what string, input []byte) ([]byte, error) {
	args := append(slices.Clone(c.words[1:]), what)
	cmd := exec.Command(c.words[0], args...)
	output, complaint := &limited{left: maxWrapped + 1}, &limited{left: maxHeard}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), output, complaint
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PGMESH_") })
	cmd.WaitDelay = time.Second // for those that it started and left behind with its output
	p, err := process.Start(cmd)
	if err != nil {
		return nil, err
	}
	late := time.NewTimer(commandPatience)
	defer late.Stop()
	select {
	case <-p.Done():
	case <-late.C:
		p.Kill()
		return nil, fmt.Errorf("%s %s: it was not done within %s%s", c, what, commandPatience, said(complaint, input, output.Bytes()))
	case <-ctx.Done():
		p.Kill()
		return nil, ctx.Err()
	}
	switch {
	case p.Err() != nil:
		return nil, fmt.Errorf("%s %s: %w%s", c, what, p.Err(), said(complaint, input, output.Bytes()))
	case output.Len() == 0:
		return nil, fmt.Errorf("%s %s: it wrote nothing%s", c, what, said(complaint, input, output.Bytes()))
	case output.Len() > maxWrapped:
		return nil, fmt.Errorf("%s %s: it wrote more than %d bytes", c, what, maxWrapped)
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
