package scrape

import (
	"bufio"
	"bytes"
	"io"
	"strings"

	"github.com/pgmesh/pgmesh/internal/standardmetrics"
)

// Envoy shows Istio's standard metrics as envoy_istio_requests_total and the like, with their
// labels in one tag. The page has them under Istio's names and with Istio's labels.
const (
	inEnvoy = "envoy_" + standardmetrics.Scope + "_"
	onPage  = "istio_"
)

// helps say what the standard metrics are.
var helps = map[string]string{
	"requests_total":                "Requests.",
	"request_duration_milliseconds": "How long requests took, from their first byte to the last of their responses.",
	"request_bytes":                 "Sizes of requests with their headers.",
	"response_bytes":                "Sizes of responses with their headers.",
	"request_messages_total":        "Messages of gRPC that clients sent.",
	"response_messages_total":       "Messages of gRPC that servers sent.",
	"tcp_connections_opened_total":  "TCP connections that were opened.",
	"tcp_connections_closed_total":  "TCP connections that were closed.",
	"tcp_sent_bytes_total":          "Bytes that servers sent over TCP connections, counted when these end.",
	"tcp_received_bytes_total":      "Bytes that clients sent over TCP connections, counted when these end.",
}

// standardReader reads Envoy's page with the standard metrics as Istio has them. It holds one
// family of them in memory at a time: series of several machines may be one.
type standardReader struct {
	body  io.ReadCloser
	lines *bufio.Reader
	seen  func(name string, value []byte) // each sample of Envoy's own

	counted func() // for each standard metric

	family  *standardFamily // that is being read, or nil
	writing *standardFamily // that is being written, or nil
	after   []byte          // a line that comes after it
	ready   bytes.Buffer
	err     error
}

func newStandardReader(body io.ReadCloser, seen func(name string, value []byte), counted func()) *standardReader {
	return &standardReader{body: body, lines: bufio.NewReaderSize(body, 64<<10), seen: seen, counted: counted}
}

// Close closes Envoy's page.
func (r *standardReader) Close() error { return r.body.Close() }

// Read implements io.Reader.
func (r *standardReader) Read(into []byte) (int, error) {
	for r.ready.Len() == 0 {
		switch {
		case r.writing != nil:
			r.write()
		case r.err != nil:
			return 0, r.err
		default:
			r.next()
		}
	}
	return r.ready.Read(into)
}

// next reads a line.
func (r *standardReader) next() {
	text, err := readLine(r.lines)
	if err != nil {
		r.flush()
		r.err = err
		return
	}
	if kind, name, isType := typeOf(text); isType && strings.HasPrefix(name, inEnvoy) {
		r.flush()
		r.counted()
		r.family = newStandardFamily(strings.TrimPrefix(name, inEnvoy), kind)
		return
	}
	if r.family != nil && r.family.add(text) {
		return
	}
	if r.flush(); r.writing != nil {
		r.after = bytes.Clone(text)
		return
	}
	r.pass(text)
}

// write writes one series, since all of a family together may be large.
func (r *standardReader) write() {
	if r.writing.write(&r.ready) {
		return
	}
	if r.writing = nil; r.after != nil {
		r.pass(r.after)
		r.after = nil
	}
}

// pass passes a line of Envoy's own on.
func (r *standardReader) pass(text []byte) {
	r.ready.Write(text)
	if len(text) > 0 && text[0] != '#' {
		n := nameLength(text)
		if inside, ok := labelsLength(text[n:]); ok {
			r.seen(string(text[:n]), bytes.TrimSpace(text[n+inside:]))
		}
	}
}

// flush ends the family that is being read.
func (r *standardReader) flush() { r.writing, r.family = r.family, nil }

// typeOf reads a line that gives the type of a family.
func typeOf(text []byte) (kind, name string, isType bool) {
	l, err := Text.parse(text)
	return string(l.rest), l.name, err == nil && l.word == "TYPE"
}
