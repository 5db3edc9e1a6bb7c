package scrape

import (
	"io"
	"sync"
)

// sink is where all targets write. Each writes whole families, so that those of several do not mix.
type sink struct {
	mu    sync.Mutex
	out   io.Writer
	kinds map[string]string // of the families that were written
	err   error             // nobody reads any more
}

// holdBytes is how much of a family is held before it is written. A larger one keeps the others waiting until it ends.
const holdBytes = 64 << 10

// portion writes the families of one target.
type portion struct {
	sink *sink

	family    *family // nil before the first
	held      []byte
	locked    bool // the family is being written
	skipped   bool // it is another than the one of that name that was written
	conflicts int
}

// begin ends the family before.
func (p *portion) begin(f *family) error {
	err := p.end()
	p.family = f
	return err
}

func (p *portion) add(sample []byte) error {
	if p.held = append(p.held, sample...); len(p.held) < holdBytes {
		return nil
	}
	return p.write()
}

// end writes the rest of the family.
func (p *portion) end() error {
	if p.family == nil {
		return nil
	}
	err := p.write()
	p.sink.mu.Unlock()
	p.family, p.locked, p.skipped = nil, false, false
	return err
}

// write has what is held written, and keeps others from writing until the family ends.
func (p *portion) write() error {
	s := p.sink
	if !p.locked {
		s.mu.Lock()
		p.locked = true
		p.introduce()
	}
	if !p.skipped && s.err == nil {
		_, s.err = s.out.Write(p.held)
	}
	p.held = p.held[:0]
	return s.err
}

// introduce writes what the family is, once for all targets that have it.
func (p *portion) introduce() {
	kind, there := p.sink.kinds[p.family.name]
	switch {
	case !there:
		p.sink.kinds[p.family.name] = p.family.kind
		if p.sink.err == nil {
			_, p.sink.err = p.sink.out.Write(p.family.head)
		}
	case kind != p.family.kind && kind != "" && p.family.kind != "":
		p.skipped = true
		p.conflicts++
	}
}
