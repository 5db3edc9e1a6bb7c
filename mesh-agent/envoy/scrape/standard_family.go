package scrape

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pgmesh/pgmesh/internal/standardmetrics"
)

// standardFamily is one of the standard metrics. What differs in nothing that Istio has a label for
// is added up.
type standardFamily struct {
	name, kind string
	// slots are the samples that a series has, such as one for each bucket, in Envoy's order.
	slots []slot
	index map[slot]int

	raw    map[string]part            // by Envoy's labels
	merged map[string]*standardSeries // by Istio's
	series []*standardSeries          // that are not written yet
	begun  bool                       // to write them
}

// slot is a sample of a series: by the end of its name, and the label le of a bucket.
type slot struct{ suffix, le string }

type standardSeries struct {
	labels string
	values []float64 // by slot
}

func newStandardFamily(name, kind string) *standardFamily {
	return &standardFamily{name: name, kind: kind, index: map[slot]int{}, raw: map[string]part{}, merged: map[string]*standardSeries{}}
}

// add reports whether a line is a sample of the family, or one that nobody can read.
func (f *standardFamily) add(text []byte) bool {
	suffix, of := strings.CutPrefix(string(text[:nameLength(text)]), inEnvoy+f.name)
	if !of || suffix != "" && (f.kind != "histogram" || !strings.HasPrefix(suffix, "_")) {
		return false
	}
	rest := bytes.TrimSpace(text[nameLength(text):])
	inside, ok := labelsLength(rest)
	if !ok || inside < len("{}") {
		return true
	}
	value, err := strconv.ParseFloat(string(bytes.TrimSpace(rest[inside:])), 64)
	if err != nil {
		return true
	}
	labels, le := string(rest[1:inside-1]), ""
	if suffix == "_bucket" {
		labels, le = cutBound(labels)
	}
	if p := f.partOf(labels); p.series != nil {
		p.series.add(f.slot(slot{suffix, le}), value*p.times)
	}
	return true
}

// cutBound cuts off the bound of a bucket, which Envoy writes last. Other samples have none, but
// may have a value that looks like one.
func cutBound(labels string) (rest, le string) {
	if at := strings.LastIndex(labels, `le="`); at == 0 || at > 0 && labels[at-1] == ',' {
		return strings.TrimSuffix(labels[:at], ","), strings.TrimSuffix(labels[at+len(`le="`):], `"`)
	}
	return labels, ""
}

func (f *standardFamily) slot(s slot) int {
	at, known := f.index[s]
	if !known {
		at = len(f.slots)
		f.index[s], f.slots = at, append(f.slots, s)
	}
	return at
}

func (s *standardSeries) add(at int, value float64) {
	if missing := at + 1 - len(s.values); missing > 0 {
		s.values = append(s.values, make([]float64, missing)...)
	}
	s.values[at] += value
}

// part is what a series of Envoy's adds to one of the page: something, some times.
type part struct {
	series *standardSeries
	times  float64
}

// partOf returns what Envoy's labels belong to: to nothing, if nobody knows them.
func (f *standardFamily) partOf(raw string) part {
	if p, known := f.raw[raw]; known {
		return p
	}
	p := part{times: 1}
	tags := tagsIn(raw)
	if numbers, of := tags[standardmetrics.Messages]; of {
		p.times = messagesIn(numbers, f.name)
		delete(tags, standardmetrics.Messages)
	}
	if labels, ok := standardLabels(tags); ok && p.times > 0 {
		p.series = f.merge(labels)
	}
	f.raw[strings.Clone(raw)] = p
	return p
}

// messagesIn returns how many messages each call had, in the direction that a metric is about.
func messagesIn(numbers, metric string) float64 {
	text, responses, _ := strings.Cut(numbers, ",")
	if strings.HasPrefix(metric, "response_") {
		text = responses
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0
	}
	return float64(n)
}

func (f *standardFamily) merge(labels string) *standardSeries {
	s := f.merged[labels]
	if s == nil {
		s = &standardSeries{labels: labels}
		f.merged[labels], f.series = s, append(f.series, s)
	}
	return s
}

// tagsIn reads Envoy's labels. What a client decides of them may be any bytes, and Prometheus reads
// no page with other than UTF-8.
func tagsIn(raw string) map[string]string {
	tags := map[string]string{}
	for rest := []byte(raw); ; {
		rest = bytes.TrimLeft(rest, ", ")
		name, length := label(rest)
		if length == 0 {
			return tags
		}
		_, quoted, _ := strings.Cut(string(rest[:length]), "=")
		tags[name] = strings.ToValidUTF8(unescaper.Replace(quoted[1:len(quoted)-1]), "_")
		rest = rest[length:]
	}
}

// standardLabels are Istio's labels, and those that somebody has added, which count more.
func standardLabels(tags map[string]string) (string, bool) {
	labels, ok := standardmetrics.Labels(tags[standardmetrics.Tag])
	if !ok {
		return "", false
	}
	without := strings.Split(tags[standardmetrics.Without], ",")
	delete(tags, standardmetrics.Tag)
	delete(tags, standardmetrics.Without)
	var b strings.Builder
	for _, l := range labels {
		if _, set := tags[l.Name]; !set && !slices.Contains(without, l.Name) {
			b.WriteString("," + l.Name + `="` + escaper.Replace(l.Value) + `"`)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		b.WriteString("," + name + `="` + escaper.Replace(tags[name]) + `"`)
	}
	return strings.TrimPrefix(b.String(), ","), true
}

var unescaper = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")

// write writes the next series, and reports whether there was one.
func (f *standardFamily) write(out *bytes.Buffer) bool {
	if len(f.series) == 0 {
		return false
	}
	if !f.begun {
		f.begun = true
		f.writeHead(out)
	}
	s := f.series[0]
	f.series = f.series[1:]
	for at, value := range s.values {
		labels := s.labels
		if le := f.slots[at].le; le != "" {
			labels += `,le="` + le + `"`
		}
		out.WriteString(onPage + f.name + f.slots[at].suffix + "{" + labels + "} " + strconv.FormatFloat(value, 'f', -1, 64) + "\n")
	}
	return true
}

func (f *standardFamily) writeHead(out *bytes.Buffer) {
	if help := helps[f.name]; help != "" {
		out.WriteString("# HELP " + onPage + f.name + " " + help + "\n")
	}
	out.WriteString("# TYPE " + onPage + f.name + " " + f.kind + "\n")
}
