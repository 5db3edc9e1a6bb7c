package scrape

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Format is an exposition format.
type Format int

// The two supported formats.
const (
	Text        Format = iota // Prometheus' own, version 0.0.4
	OpenMetrics               // version 1.0.0
)

// ContentType returns the format's Content-Type.
func (f Format) ContentType() string {
	if f == OpenMetrics {
		return "application/openmetrics-text; version=1.0.0; charset=utf-8"
	}
	return "text/plain; version=0.0.4; charset=utf-8"
}

// accept returns an Accept header that prefers this format and allows the other.
func (f Format) accept() string {
	if f == OpenMetrics {
		return "application/openmetrics-text;version=1.0.0;q=0.9,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
	}
	return "text/plain;version=0.0.4;q=0.9,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1"
}

// Negotiate returns the format that an Accept header prefers: OpenMetrics if it is named and
// nothing else ranks higher.
func Negotiate(accept string) Format {
	best, format := 0.0, Text
	for each := range strings.SplitSeq(accept, ",") {
		kind, parameters, err := mime.ParseMediaType(each)
		if err != nil {
			continue
		}
		q := 1.0
		if text, has := parameters["q"]; has {
			if q, err = strconv.ParseFloat(text, 64); err != nil {
				continue
			}
		}
		of := Text
		if kind == "application/openmetrics-text" {
			if v := parameters["version"]; v != "" && v != "1.0.0" && v != "0.0.1" {
				continue
			}
			of = OpenMetrics
		}
		if q > best || q == best && of == OpenMetrics {
			best, format = q, of
		}
	}
	return format
}

// formatOf returns the format that a target's Content-Type states.
func formatOf(contentType string) (Format, error) {
	kind, _, err := mime.ParseMediaType(contentType)
	switch {
	case kind == "application/openmetrics-text":
		return OpenMetrics, nil
	case contentType == "", kind == "text/plain", kind == "application/octet-stream":
		return Text, nil // Text is the default
	case err != nil:
		return Text, fmt.Errorf("its Content-Type %q is none", contentType)
	default:
		return Text, fmt.Errorf("it answers with %s, and metrics are text/plain or application/openmetrics-text: is the path right?", kind)
	}
}

// line is a parsed line of metrics.
type line struct {
	// word is HELP, TYPE, UNIT or EOF, and name its family. For a sample, word is "" and name the
	// sample's.
	word, name string
	// rest is what follows the name.
	rest []byte
}

var errNoMetric = errors.New("is no line of a page of metrics")

// parse parses a line. A blank line or a comment has neither name nor word. Prometheus reads
// nothing of a page that is not UTF-8.
func (f Format) parse(text []byte) (line, error) {
	text = bytes.TrimRight(text, "\r\n \t")
	switch {
	case len(text) == 0:
		return line{}, nil
	case !utf8.Valid(text):
		return line{}, errNoMetric
	}
	if text[0] != '#' {
		return f.parseSample(text)
	}
	fields := bytes.SplitN(text, []byte(" "), 4)
	if len(fields) == 2 && string(fields[1]) == "EOF" {
		return line{word: "EOF"}, nil
	}
	if len(fields) < 3 || len(fields[0]) != 1 {
		return line{}, nil
	}
	l := line{word: string(fields[1]), name: string(fields[2])}
	if l.word != "HELP" && l.word != "TYPE" && l.word != "UNIT" {
		return line{}, nil
	}
	if len(fields) == 4 {
		l.rest = fields[3]
	}
	if nameLength([]byte(l.name)) != len(l.name) || l.word == "TYPE" && !metricTypes[string(l.rest)] {
		return line{}, errNoMetric
	}
	return l, nil
}

// metricTypes are the types of both formats.
var metricTypes = map[string]bool{
	"counter": true, "gauge": true, "histogram": true, "summary": true, "untyped": true,
	"unknown": true, "info": true, "stateset": true, "gaugehistogram": true,
}

func (f Format) parseSample(text []byte) (line, error) {
	n := nameLength(text)
	labels, ok := labelsLength(text[n:])
	if n == 0 || !ok || !f.isValue(text[n+labels:]) {
		return line{}, errNoMetric
	}
	return line{name: string(text[:n]), rest: text[n:]}, nil
}

// isValue reports whether text is a value, with an optional timestamp, and in OpenMetrics an
// optional exemplar.
func (f Format) isValue(text []byte) bool {
	if f == OpenMetrics {
		text, _, _ = bytes.Cut(text, []byte(" # "))
	}
	value, at := word(text)
	at, more := word(at)
	if _, err := strconv.ParseFloat(string(value), 64); err != nil || len(bytes.TrimSpace(more)) > 0 {
		return false
	}
	if len(at) == 0 {
		return true
	}
	if f == OpenMetrics {
		_, err := strconv.ParseFloat(string(at), 64)
		return err == nil
	}
	_, err := strconv.ParseInt(string(at), 10, 64)
	return err == nil
}

// word splits off the first word.
func word(text []byte) (first, rest []byte) {
	text = bytes.TrimLeft(text, " \t")
	end := bytes.IndexAny(text, " \t")
	if end < 0 {
		return text, nil
	}
	return text[:end], text[end:]
}

// nameLength returns the length of the name at the beginning.
func nameLength(text []byte) int {
	for i, c := range text {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == ':'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return i
		}
	}
	return len(text)
}

// labelsLength returns the length of the labels in braces at the beginning.
func labelsLength(text []byte) (length int, ok bool) {
	if len(text) == 0 || text[0] != '{' {
		return 0, true
	}
	for at := 1; ; {
		at += spaces(text[at:])
		if at < len(text) && text[at] == '}' {
			return at + 1, true
		}
		_, n := label(text[at:])
		if n == 0 {
			return 0, false
		}
		at += n
		at += spaces(text[at:])
		switch {
		case at < len(text) && text[at] == ',':
			at++
		case at == len(text) || text[at] != '}':
			return 0, false
		}
	}
}

// label returns the name of the label at the beginning, and the length of name and value: 0 if
// there is none.
func label(text []byte) (name string, length int) {
	n := nameLength(text)
	at := n + spaces(text[n:])
	if n == 0 || at == len(text) || text[at] != '=' {
		return "", 0
	}
	at++
	at += spaces(text[at:])
	if at == len(text) || text[at] != '"' {
		return "", 0
	}
	for at++; at < len(text); at++ {
		switch text[at] {
		case '\\':
			at++
		case '"':
			return string(text[:n]), at + 1
		}
	}
	return "", 0
}

func spaces(text []byte) int { return len(text) - len(bytes.TrimLeft(text, " \t")) }

// withLabel adds a label to what follows a sample's name, unless it has one of that name.
func withLabel(rest []byte, name, value string) []byte {
	if name == "" {
		return rest
	}
	further := name + `="` + escaper.Replace(value) + `"`
	inside, _ := labelsLength(rest)
	switch {
	case inside == 0:
		return append([]byte("{"+further+"}"), rest...)
	case hasLabel(rest[1:inside-1], name):
		return rest
	case len(bytes.TrimSpace(rest[1:inside-1])) == 0:
		return append([]byte("{"+further+"}"), rest[inside:]...)
	default:
		return append([]byte("{"+further+","), rest[1:]...)
	}
}

// hasLabel reports whether well-formed labels have one with a name.
func hasLabel(labels []byte, wanted string) bool {
	for {
		labels = bytes.TrimLeft(labels, " \t,")
		name, length := label(labels)
		if length == 0 || name == wanted {
			return length > 0
		}
		labels = labels[length:]
	}
}

var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
