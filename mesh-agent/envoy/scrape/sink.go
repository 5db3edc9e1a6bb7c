package scrape

import (
	"io"
	"sync"
)

// sink is the output of all targets. Each target writes whole families, so that they do not mix.
type sink struct {
	mu    sync.Mutex
	out   io.Writer
	kinds map[string]string // types of the families written
	err   error             // from the client; nothing is written after it
}

// bufferSize is how much of a family is buffered. A larger one keeps the sink locked until it ends.
const bufferSize = 64 << 10

// familyWriter writes the families of one target.
type familyWriter struct {
	sink *sink

	family    *family // nil between families
	buffer    []byte
	locked    bool // it holds sink.mu, until the family ends
	skipped   bool // a family of that name but another type was written
	conflicts int
}

// begin ends the family before and starts the next.
func (p *familyWriter) begin(f *family) error {
	err := p.end()
	p.family = f
	return err
}

func (p *familyWriter) add(sample []byte) error {
	if p.buffer = append(p.buffer, sample...); len(p.buffer) < bufferSize {
		return nil
	}
	return p.write()
}

// end writes the rest of the family and unlocks the sink.
func (p *familyWriter) end() error {
	if p.family == nil {
		return nil
	}
	err := p.write()
	p.sink.mu.Unlock()
	p.family, p.locked, p.skipped = nil, false, false
	return err
}

// write writes the buffer, and locks the sink until the family ends.
func (p *familyWriter) write() error {
	s := p.sink
	if !p.locked {
		s.mu.Lock()
		p.locked = true
		p.writeHead()
	}
	if !p.skipped && s.err == nil {
		_, s.err = s.out.Write(p.buffer)
	}
	p.buffer = p.buffer[:0]
	return s.err
}

// writeHead writes the family's metadata, once for all targets that have it.
func (p *familyWriter) writeHead() {
	kind, there := p.sink.kinds[p.family.name]
	switch {
	case !there:
		p.sink.kinds[p.family.name] = p.family.kind
		if p.sink.err == nil {
			_, p.sink.err = p.sink.out.Write(p.family.head)
		}
	case kind != p.family.kind && kind != "" && p.family.kind != "":
		p.writeConflicting()
	}
}

// writeConflicting leaves out a family whose name another has with another type. Envoy may have
// upstream_rq beside upstream_rq_total, which in OpenMetrics are one: there the counter goes by the
// name of its samples, as a metric of unknown type.
func (p *familyWriter) writeConflicting() {
	full := p.family.full
	if kind, there := p.sink.kinds[full]; full == "" || there && kind != "unknown" {
		p.skipped = true
		p.conflicts++
		return
	}
	if _, there := p.sink.kinds[full]; !there && p.sink.err == nil {
		_, p.sink.err = p.sink.out.Write([]byte("# TYPE " + full + " unknown\n"))
	}
	p.sink.kinds[full] = "unknown"
}
