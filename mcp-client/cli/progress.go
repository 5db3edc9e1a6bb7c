package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
)

// progress is a progress bar for an import. Without a terminal it prints nothing.
type progress struct {
	out   io.Writer // nil without a terminal
	total int64     // the bytes to read, 0 if unknown

	mu      sync.Mutex
	read    int64
	count   int
	began   time.Time
	drawn   time.Time
	visible bool
}

const (
	redrawEvery = 100 * time.Millisecond
	barWidth    = 30
)

func newProgress(out io.Writer, files []string) *progress {
	p := &progress{began: time.Now()}
	if terminal.Is(out) {
		p.out, p.total = terminal.Exact(out), size(files)
	}
	return p
}

// size returns the total size of the files, 0 if unknown.
func size(files []string) (total int64) {
	for _, f := range files {
		info, err := os.Stat(f)
		if f == stdin || err != nil {
			return 0
		}
		total += info.Size()
	}
	return total
}

type countingReader struct {
	in       io.Reader
	progress *progress
}

func (r *countingReader) Read(b []byte) (int, error) {
	n, err := r.in.Read(b)
	r.progress.add(int64(n), 0)
	return n, err
}

// counting counts the bytes that are read.
func (p *progress) counting(in io.Reader) io.Reader { return &countingReader{in, p} }

// stored counts resources that the server has stored.
func (p *progress) stored(n int) { p.add(0, n) }

func (p *progress) add(read int64, count int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read += read
	p.count += count
	if now := time.Now(); p.out != nil && now.Sub(p.drawn) >= redrawEvery {
		p.drawn = now
		p.draw(p.bar())
	}
}

// committing shows that the server is committing.
func (p *progress) committing() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.visible {
		p.draw(fmt.Sprintf("committing %d resources", p.count))
	}
}

// clear removes the bar.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.visible {
		p.draw("")
		fmt.Fprint(p.out, "\r")
		p.visible = false
	}
}

func (p *progress) bar() string {
	rate := float64(p.count) / time.Since(p.began).Seconds()
	if p.total == 0 {
		return fmt.Sprintf("%d resources  %.0f/s", p.count, rate)
	}
	done := min(float64(p.read)/float64(p.total), 1)
	full := int(done * barWidth)
	return fmt.Sprintf("[%s%s] %3.0f %%  %d resources  %.0f/s", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), 100*done, p.count, rate)
}

// draw overwrites the line.
func (p *progress) draw(text string) {
	fmt.Fprintf(p.out, "\r%-70s", text)
	p.visible = true
}
