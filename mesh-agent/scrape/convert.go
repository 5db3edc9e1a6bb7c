package scrape

import (
	"bytes"
	"strconv"
	"strings"
)

// family is a metric with all its samples, as it is written.
type family struct {
	name, kind string
	head       []byte // the lines that say what it is
}

// converter writes the lines of one target in another format, family by family. It drops what the other format cannot say.
type converter struct {
	from, to Format
	label    string // a further label of every sample, if it is not ""
	value    string

	source  string // what the target calls the family that the lines are of
	kind    string // and says that it is
	help    []byte
	hasHelp bool
	unit    []byte
	begun   bool // the family was begun for a sample
}

// labelName is that of the label which tells targets apart.
const labelName = "target"

// take returns a family that begins with a line, if one does, and a sample to be written.
func (c *converter) take(l line) (begins *family, sample []byte) {
	switch l.word {
	case "HELP":
		c.about(l.name)
		c.help, c.hasHelp = bytes.Clone(l.rest), true
	case "TYPE":
		c.about(l.name)
		c.kind = string(l.rest)
	case "UNIT":
		c.about(l.name)
		c.unit = bytes.Clone(l.rest)
	case "":
		if l.name != "" {
			return c.sample(l)
		}
	}
	return nil, nil
}

// about begins to collect what is said of a family.
func (c *converter) about(name string) {
	if name != c.source {
		*c = converter{from: c.from, to: c.to, label: c.label, value: c.value, source: name}
	}
}

// suffixes are those of the samples of a family, in the format that it is read in.
func (c *converter) suffixes() []string {
	switch c.kind {
	case "histogram":
		return []string{"_bucket", "_sum", "_count", "_created"}
	case "summary":
		return []string{"", "_sum", "_count", "_created"}
	case "gaugehistogram":
		return []string{"_bucket", "_gsum", "_gcount"}
	case "counter":
		if c.from == OpenMetrics {
			return []string{"_total", "_created", ""}
		}
	case "info":
		return []string{"_info"}
	}
	return []string{""}
}

func (c *converter) sample(l line) (begins *family, sample []byte) {
	suffix, of := c.suffixOf(l.name)
	if !of {
		c.about(l.name)
		c.source, c.kind, suffix = l.name, "", ""
	}
	if c.from == OpenMetrics && c.to == Text && suffix == "_created" {
		return nil, nil // it would be a metric of its own, in between
	}
	if !c.begun {
		c.begun = true
		begins = c.begin()
	}
	rest := labelled(l.rest, c.label, c.value)
	if c.from != c.to {
		rest = c.rewrite(rest)
	}
	return begins, append([]byte(l.name), append(rest, '\n')...)
}

func (c *converter) suffixOf(name string) (string, bool) {
	rest, of := strings.CutPrefix(name, c.source)
	if !of || c.source == "" {
		return "", false
	}
	for _, s := range c.suffixes() {
		if rest == s {
			return s, true
		}
	}
	return "", false
}

// begin is the family in the format that is written.
func (c *converter) begin() *family {
	f := &family{name: c.source, kind: c.kind}
	help := c.help
	switch {
	case c.from == Text && c.to == OpenMetrics:
		help = []byte(strings.ReplaceAll(string(help), `"`, `\"`))
		f.toOpenMetrics()
	case c.from == OpenMetrics && c.to == Text:
		help = []byte(strings.ReplaceAll(string(help), `\"`, `"`))
		f.toText()
	}
	var head bytes.Buffer
	if c.hasHelp {
		head.WriteString("# HELP " + f.name + " " + string(help) + "\n")
	}
	if f.kind != "" {
		head.WriteString("# TYPE " + f.name + " " + f.kind + "\n")
	}
	if len(c.unit) > 0 && c.to == OpenMetrics {
		head.WriteString("# UNIT " + f.name + " " + string(c.unit) + "\n")
	}
	f.head = head.Bytes()
	return f
}

// toOpenMetrics names a counter without the end that its samples have there. One whose samples have none is no counter there.
func (f *family) toOpenMetrics() {
	switch f.kind {
	case "untyped", "":
		f.kind = "unknown"
	case "counter":
		if name, total := strings.CutSuffix(f.name, "_total"); total {
			f.name = name
		} else {
			f.kind = "unknown"
		}
	}
}

// toText names a family as its samples are named, for there they are.
func (f *family) toText() {
	switch f.kind {
	case "counter":
		f.name += "_total"
	case "info":
		f.name, f.kind = f.name+"_info", "gauge"
	case "stateset":
		f.kind = "gauge"
	case "unknown":
		f.kind = "untyped"
	case "gaugehistogram":
		f.kind = "" // its samples have other names
	}
}

// rewrite is what comes after the name of a sample in the other format: times are in seconds in OpenMetrics and in milliseconds in the other,
// and there are no exemplars there.
func (c *converter) rewrite(rest []byte) []byte {
	inside, _ := labelsLength(rest)
	fields := strings.Fields(string(rest[inside:]))
	out := append(bytes.Clone(rest[:inside]), ' ')
	out = append(out, fields[0]...)
	if len(fields) < 2 || fields[1] == "#" {
		return out
	}
	at, err := strconv.ParseFloat(fields[1], 64)
	if err != nil {
		return out
	}
	if c.to == OpenMetrics {
		return append(out, " "+strconv.FormatFloat(at/1000, 'f', -1, 64)...)
	}
	return append(out, " "+strconv.FormatInt(int64(at*1000), 10)...)
}
