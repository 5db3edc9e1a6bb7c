package files

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
)

// Progress is a progress bar for an import. Without a terminal it prints nothing.
type Progress struct {
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

// NewProgress begins a bar for the reading of these files.
func NewProgress(out io.Writer, files []string) *Progress {
	p := &Progress{began: time.Now()}
	if terminal.Is(out) {
		p.out, p.total = terminal.Exact(out), size(files)
	}
	return p
}

// size returns the total size of the files, 0 if unknown.
func size(files []string) (total int64) {
	for _, f := range files {
		info, err := os.Stat(f)
		if f == Stdin || err != nil {
			return 0
		}
		total += info.Size()
	}
	return total
}

type countingReader struct {
	in       io.Reader
	progress *Progress
}

func (r *countingReader) Read(b []byte) (int, error) {
	n, err := r.in.Read(b)
	r.progress.add(int64(n), 0)
	return n, err
}

// counting counts the bytes that are read.
func (p *Progress) counting(in io.Reader) io.Reader { return &countingReader{in, p} }

// Stored counts resources that the server has stored.
func (p *Progress) Stored(n int) { p.add(0, n) }

func (p *Progress) add(read int64, count int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read += read
	p.count += count
	if now := time.Now(); p.out != nil && now.Sub(p.drawn) >= redrawEvery {
		p.drawn = now
		p.draw(p.bar())
	}
}

// Committing shows that the server is committing.
func (p *Progress) Committing() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.visible {
		p.draw(fmt.Sprintf("committing %d resources", p.count))
	}
}

// Clear removes the bar.
func (p *Progress) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.visible {
		p.draw("")
		fmt.Fprint(p.out, "\r")
		p.visible = false
	}
}

func (p *Progress) bar() string {
	rate := float64(p.count) / time.Since(p.began).Seconds()
	if p.total == 0 {
		return fmt.Sprintf("%d resources  %.0f/s", p.count, rate)
	}
	done := min(float64(p.read)/float64(p.total), 1)
	full := int(done * barWidth)
	return fmt.Sprintf("[%s%s] %3.0f %%  %d resources  %.0f/s", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), 100*done, p.count, rate)
}

// draw overwrites the line.
func (p *Progress) draw(text string) {
	fmt.Fprintf(p.out, "\r%-70s", text)
	p.visible = true
}
