package inspect

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pgmesh/pgmesh/mesh-agent/status"
)

// LogOptions select lines.
type LogOptions struct {
	Lines                  int
	Follow                 bool
	From, Level, Component string
	JSON                   bool
}

func (o LogOptions) query() string {
	q := url.Values{"n": {strconv.Itoa(o.Lines)}, "from": {o.From}, "level": {o.Level}, "component": {o.Component}}
	if o.Follow {
		q.Set("follow", "1")
	}
	return q.Encode()
}

// Logs prints lines. Following ends with the context, or with an error when the agent ends.
func (a *Agent) Logs(ctx context.Context, out io.Writer, o LogOptions) error {
	if o.Lines < 0 {
		return fmt.Errorf("-n %d: how many lines are to be printed? Say 0 or more", o.Lines)
	}
	body, err := a.ask(ctx, http.MethodGet, "/logs?"+o.query())
	if err != nil {
		return err
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if err := writeLine(out, lines.Bytes(), o.JSON); err != nil {
			return err
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil // ended by Ctrl-C
	case o.Follow:
		return fmt.Errorf("the agent has ended (it was that of %s)", a.stateDir)
	}
	return lines.Err()
}

// writeLine prints a line's text, which contains its time and level.
func writeLine(out io.Writer, text []byte, asJSON bool) error {
	if asJSON {
		_, err := fmt.Fprintf(out, "%s\n", text)
		return err
	}
	var line status.Line
	if err := json.Unmarshal(text, &line); err != nil {
		return fmt.Errorf("read the agent's answer: %w", err)
	}
	_, err := fmt.Fprintln(out, line.Text)
	return err
}
