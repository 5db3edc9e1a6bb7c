package change

import (
	"fmt"
	"io"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
)

// progress is a line on the terminal that says how far proxies are. Without a terminal it prints
// nothing.
type progress struct {
	out     io.Writer // nil without a terminal
	visible bool
}

func newProgress(out io.Writer) *progress {
	if !terminal.Is(out) {
		return &progress{}
	}
	return &progress{out: terminal.Exact(out)}
}

// show replaces the line.
func (p *progress) show(text string) {
	if p.out != nil {
		fmt.Fprintf(p.out, "\r%-70s", text)
		p.visible = true
	}
}

// clear removes the line. It is called before anything else is printed.
func (p *progress) clear() {
	if p.visible {
		fmt.Fprintf(p.out, "\r%-70s\r", "")
		p.visible = false
	}
}
