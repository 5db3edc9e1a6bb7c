package join

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// standardInput names standard input in place of a file.
const standardInput = "-"

// readToken reads the join token, the first line of standard input. On a terminal it prompts and
// does not echo.
func readToken(ctx context.Context, in io.Reader, out io.Writer) (string, error) {
	if file, is := in.(*os.File); is && term.IsTerminal(int(file.Fd())) {
		fmt.Fprint(out, "join token, of mcp-client token create: ")
		text, err := withoutEcho(ctx, int(file.Fd()))
		fmt.Fprintln(out)
		return text, err
	}
	text, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the join token from standard input: %w", err)
	}
	if strings.TrimSpace(text) == "" {
		return "", errors.New("what is this machine to join with? Give --token-file, or on standard input, what mcp-client token create has printed; or --jwt-file and --roots")
	}
	return text, nil
}

// withoutEcho reads without echo, and restores the terminal if it is interrupted.
func withoutEcho(ctx context.Context, terminal int) (string, error) {
	was, err := term.GetState(terminal)
	if err != nil {
		return "", fmt.Errorf("ask for the join token: %w", err)
	}
	type answer struct {
		text []byte
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		text, err := term.ReadPassword(terminal)
		answers <- answer{text, err}
	}()
	select {
	case a := <-answers:
		if a.err != nil {
			return "", fmt.Errorf("ask for the join token: %w", a.err)
		}
		return string(a.text), nil
	case <-ctx.Done(): // the program ends, and with it the goroutine that reads
		return "", errors.Join(fmt.Errorf("ask for the join token: %w", ctx.Err()), term.Restore(terminal, was))
	}
}
