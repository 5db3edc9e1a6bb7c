package scrape

import (
	"bytes"
	"strconv"
	"strings"
)

// family is a metric family in the output format.
type family struct {
	name, kind string
	head       []byte // its HELP, TYPE and UNIT lines
	full       string // of a counter of OpenMetrics: the name of its samples
}

// converter converts the lines of one target to the output format, family by family. It drops what
// that format cannot express.
type converter struct {
	from, to Format
	label    string // a label to add to every sample, unless ""
	value    string

	source  string // the target's name for the current family
	kind    string // and its type
	help    []byte
	hasHelp bool
	unit    []byte
	begun   bool // a sample of it was seen
}

// labelName is the label that names the target.
const labelName = "target"

// convert returns the family that starts with a line, if any, and the sample to write, if any.
func (c *converter) convert(l line) (begins *family, sample []byte) {
	switch l.word {
	case "HELP":
		c.startFamily(l.name)
		c.help, c.hasHelp = bytes.Clone(l.rest), true
	case "TYPE":
		c.startFamily(l.name)
		c.kind = string(l.rest)
	case "UNIT":
		c.startFamily(l.name)
		c.unit = bytes.Clone(l.rest)
	case "":
		if l.name != "" {
			return c.sample(l)
		}
	}
	return nil, nil
}

// startFamily starts to collect the metadata of a family, unless it is the current one.
func (c *converter) startFamily(name string) {
	if name != c.source {
		*c = converter{from: c.from, to: c.to, label: c.label, value: c.value, source: name}
	}
}

// suffixes returns the suffixes of the family's samples in the input format.
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
		c.startFamily(l.name)
		c.source, c.kind, suffix = l.name, "", ""
	}
	if c.from == OpenMetrics && c.to == Text && suffix == "_created" {
		return nil, nil // Text has no such samples, and a family of its own would come in between
	}
	if !c.begun {
		c.begun = true
		begins = c.begin()
	}
	rest := withLabel(l.rest, c.label, c.value)
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

// begin returns the family in the output format.
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

// toOpenMetrics removes the suffix _total from a counter's name. A counter without it is none in
// OpenMetrics.
func (f *family) toOpenMetrics() {
	switch f.kind {
	case "untyped", "":
		f.kind = "unknown"
	case "counter":
		if name, total := strings.CutSuffix(f.name, "_total"); total {
			f.name, f.full = name, f.name
		} else {
			f.kind = "unknown"
		}
	}
}

// toText names a family like its samples.
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

// rewrite converts a sample's labels, value and timestamp. OpenMetrics has timestamps in seconds
// and Text in milliseconds; Text has no exemplars.
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
