// Package scrape merges the metrics of Envoy, the agent, and the machine's applications into one
// page.
//
// Pages may be large, so they are converted line by line and never held as a whole. A target that
// fails, is slow, or answers with something else costs only its own metrics.
package scrape

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
)

const (
	// maxLine bounds a line, which is held in memory.
	maxLine = 1 << 20
	// maxBytes bounds a target's page, for one that never ends.
	maxBytes = 512 << 20
)

// Target is a source of metrics.
type Target struct {
	Name string // unique among targets
	// Label adds the label "target" to each of its samples.
	Label bool
	// Open opens its metrics, in the preferred format if it can. The query is the client's.
	Open func(ctx context.Context, like Format, query url.Values) (io.ReadCloser, Format, error)
}

// client keeps no idle connections: by the next scrape, half a minute later, the target may have
// restarted.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}

// Application returns a target for a setting, URL or NAME=URL; with a name, samples are labelled.
func Application(setting string) (Target, error) {
	name, address, named := strings.Cut(setting, "=")
	if !named || strings.Contains(name, "://") {
		name, address, named = "", setting, false
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || named && name == "" {
		return Target{}, fmt.Errorf("--scrape %s: write it as URL or NAME=URL, such as cart=http://127.0.0.1:9090/metrics", setting)
	}
	if !named {
		name = u.Host
	}
	return Target{Name: name, Label: named, Open: func(ctx context.Context, like Format, _ url.Values) (io.ReadCloser, Format, error) {
		return open(ctx, address, like)
	}}, nil
}

func open(ctx context.Context, address string, like Format) (io.ReadCloser, Format, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, Text, err
	}
	request.Header.Set("Accept", like.accept())
	response, err := client.Do(request)
	if err != nil {
		return nil, Text, err
	}
	format, err := formatOf(response.Header.Get("Content-Type"))
	if response.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers %s", response.Status)
	}
	if err != nil {
		response.Body.Close()
		return nil, Text, err
	}
	return response.Body, format, nil
}

// Page serves the metrics of all targets.
type Page struct {
	Targets []Target
	// Own are the agent's metrics. They come last, because they include the results of this scrape.
	Own prometheus.Gatherer
	// Within is how long a target may keep the page waiting in total.
	Within time.Duration
	Log    *slog.Logger
	// Counting is called when Envoy has standard metrics of Istio's; it may be nil.
	Counting func()

	up        *prometheus.GaugeVec
	seconds   *prometheus.GaugeVec
	failures  *prometheus.CounterVec
	conflicts *prometheus.GaugeVec

	mu     sync.Mutex
	failed map[string]string // the last logged error of each target, "" for none
}

// Register registers metrics about the targets.
func (p *Page) Register(r prometheus.Registerer) {
	labels := []string{labelName}
	p.up = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "pgmesh_mesh_agent_scrape_up", Help: "1 if the metrics of a target could be read to their end the last time, else 0."}, labels)
	p.seconds = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "pgmesh_mesh_agent_scrape_duration_seconds", Help: "How long it took to read the metrics of a target the last time."}, labels)
	p.failures = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pgmesh_mesh_agent_scrape_failures_total", Help: "How often the metrics of a target could not be read to their end."}, labels)
	p.conflicts = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "pgmesh_mesh_agent_scrape_conflicts", Help: "How many metrics of a target were left out the last time, because another has metrics of the same names and other types.",
	}, labels)
	r.MustRegister(p.up, p.seconds, p.failures, p.conflicts)
	for _, t := range p.Targets {
		p.failures.WithLabelValues(t.Name)
	}
	p.failed = map[string]string{}
}

func (p *Page) counted() {
	if p.Counting != nil {
		p.Counting()
	}
}

// timeoutHeader is how Prometheus states its timeout.
const timeoutHeader = "X-Prometheus-Scrape-Timeout-Seconds"

// ServeHTTP answers with the metrics of all targets, and then with its own about them.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	format := Negotiate(r.Header.Get("Accept"))
	w.Header().Set("Content-Type", format.ContentType())
	out := io.Writer(w)
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		packed, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is valid
		defer packed.Close()
		out = packed
	}
	s := &sink{out: out, kinds: map[string]string{}}
	within := p.Within
	if limit, err := strconv.ParseFloat(r.Header.Get(timeoutHeader), 64); err == nil && limit > 0 {
		within = min(within, time.Duration(limit*float64(time.Second))*9/10) // Prometheus still has to read it
	}
	var all sync.WaitGroup
	for _, t := range p.Targets {
		all.Go(func() { p.pass(r.Context(), s, t, format, within, r.URL.Query()) })
	}
	all.Wait()
	p.writeOwn(s, format)
	if format == OpenMetrics && s.err == nil {
		_, _ = io.WriteString(out, "# EOF\n") // the client may be gone
	}
}

// pass writes a target's metrics and records the result.
func (p *Page) pass(ctx context.Context, s *sink, t Target, format Format, within time.Duration, query url.Values) {
	began := time.Now()
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	reading, timer := newTargetTimer(reading, within)
	part := &familyWriter{sink: s}
	err := panics.Try("scrape", func() error { return p.read(reading, timer, part, t, format, query) })
	if ctx.Err() != nil {
		return // it is the client that has gone
	}
	err = timer.explain(err)
	p.seconds.WithLabelValues(t.Name).Set(time.Since(began).Seconds())
	p.conflicts.WithLabelValues(t.Name).Set(float64(part.conflicts))
	p.setResult(t.Name, err)
}

func (p *Page) read(ctx context.Context, patient *targetTimer, part *familyWriter, t Target, format Format, query url.Values) (err error) {
	var body io.ReadCloser
	c := converter{to: format}
	if err := patient.measure(func() (err error) {
		body, c.from, err = t.Open(ctx, format, query)
		return err
	}); err != nil {
		return err
	}
	defer body.Close()
	if t.Label {
		c.label, c.value = labelName, t.Name
	}
	return c.pass(patient.reader(body), part)
}

// pass converts whole lines, as long as they are valid.
func (c *converter) pass(body io.Reader, part *familyWriter) (err error) {
	defer func() { err = errors.Join(err, part.end()) }()
	limited := &io.LimitedReader{R: body, N: maxBytes}
	lines := bufio.NewReaderSize(limited, 64<<10)
	for number := 1; ; number++ {
		text, err := readLine(lines)
		if errors.Is(err, io.EOF) {
			if limited.N == 0 {
				return fmt.Errorf("it has more than %d bytes", maxBytes)
			}
			return nil
		}
		var l line
		if err == nil {
			l, err = c.from.parse(text)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		begins, sample := c.convert(l)
		if begins != nil {
			if err := part.begin(begins); err != nil {
				return err
			}
		}
		if sample != nil {
			if err := part.add(sample); err != nil {
				return err
			}
		}
	}
}

// readLine returns a line, valid until the next call. The last line may lack its end.
func readLine(r *bufio.Reader) ([]byte, error) {
	text, err := r.ReadSlice('\n')
	if err == nil {
		return text, nil
	}
	var long []byte
	for errors.Is(err, bufio.ErrBufferFull) {
		if long = append(long, text...); len(long) > maxLine {
			return nil, errors.New("it is too long for a line of metrics")
		}
		text, err = r.ReadSlice('\n')
	}
	long = append(long, text...)
	if errors.Is(err, io.EOF) && len(long) > 0 {
		err = nil
	}
	return long, err
}

// ownPrefixes are metrics of any Go program, which applications may have too. /metrics has the
// agent's.
var ownPrefixes = []string{"go_", "process_", "promhttp_"}

func (p *Page) writeOwn(s *sink, format Format) {
	families, err := p.Own.Gather()
	if err != nil {
		p.Log.Warn("metrics of the agent itself cannot be gathered", "error", err)
	}
	reader, writer := io.Pipe()
	go func() {
		e := expfmt.NewEncoder(writer, expfmt.NewFormat(expfmt.TypeTextPlain))
		var err error
	families:
		for _, f := range families {
			for _, prefix := range ownPrefixes {
				if strings.HasPrefix(f.GetName(), prefix) {
					continue families
				}
			}
			err = errors.Join(err, e.Encode(f))
		}
		writer.CloseWithError(err)
	}()
	c := converter{to: format}
	err = c.pass(reader, &familyWriter{sink: s})
	reader.CloseWithError(err) // unblocks the encoder
}

// setResult records the result for a target, and logs when it starts to fail or recovers.
func (p *Page) setResult(name string, err error) {
	up, message := 1.0, ""
	if err != nil {
		up, message = 0, err.Error()
		p.failures.WithLabelValues(name).Inc()
	}
	p.up.WithLabelValues(name).Set(up)
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.failed[name]
	p.failed[name] = message
	switch {
	case message != "" && before == "":
		p.Log.Warn("metrics cannot be read, and are missing from /stats/prometheus", "target", name, "error", err)
	case message == "" && before != "":
		p.Log.Info("metrics can be read again", "target", name)
	}
}
