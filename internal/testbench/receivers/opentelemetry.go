package receivers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// OpenTelemetry is a running collector of OpenTelemetry.
type OpenTelemetry struct {
	receiver

	// GRPC and HTTP take OTLP, and Zipkin takes Zipkin's spans: ports.
	GRPC, HTTP, Zipkin string

	folder      string
	spans, logs written
}

// written is what was read of a file so far.
type written struct {
	bytes   int64
	entries []Entry
}

// Entry is a span or a record of a log, as the collector writes it.
type Entry struct {
	TraceID      string
	SpanID       string
	ParentSpanID string
	Name         string
	Kind         int
	Status       struct{ Message string }
	Events       []struct{ Name string }
	Attributes   Attributes
	Body         Value
	// Resource says who sends it.
	Resource Attributes `json:"-"`
}

// The kinds of spans.
const (
	Server = 2
	Client = 3
)

// StartOpenTelemetry starts a collector with a configuration. It has ports of its own in place of
// the usual ones of all addresses, and writes its files to a folder of the test in place of
// /var/lib/otelcol.
func StartOpenTelemetry(t testing.TB, config string) *OpenTelemetry {
	t.Helper()
	program := filepath.Join(tools(t), "bin", "otelcol")
	o := &OpenTelemetry{GRPC: newPort(t), HTTP: newPort(t), Zipkin: newPort(t), folder: t.TempDir()}
	config = strings.NewReplacer("0.0.0.0:4317", "127.0.0.1:"+o.GRPC, "0.0.0.0:4318", "127.0.0.1:"+o.HTTP, "0.0.0.0:9411", "127.0.0.1:"+o.Zipkin,
		"/var/lib/otelcol", o.folder).Replace(config)
	file := filepath.Join(o.folder, "config.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	o.start(t, exec.Command(program, "--config", file, "--set=service.telemetry.metrics.level=none"), func(context.Context) error {
		if !strings.Contains(o.log.String(), "Everything is ready") {
			return errors.New("the collector is not ready")
		}
		return nil
	})
	return o
}

// Spans returns those that the collector has written to traces.json.
func (o *OpenTelemetry) Spans() ([]Entry, error) {
	err := o.spans.read(filepath.Join(o.folder, "traces.json"))
	return o.spans.entries, err
}

// Logs returns the records that the collector has written to logs.json.
func (o *OpenTelemetry) Logs() ([]Entry, error) {
	err := o.logs.read(filepath.Join(o.folder, "logs.json"))
	return o.logs.entries, err
}

// scope is what a program sends together.
type scope struct {
	Resource              struct{ Attributes Attributes }
	ScopeSpans, ScopeLogs []struct{ Spans, LogRecords []Entry }
}

// read reads the lines that were written since the last time.
func (w *written) read(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	text, err := io.ReadAll(io.NewSectionReader(file, w.bytes, math.MaxInt64-w.bytes))
	if err != nil {
		return err
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1] // a line may not be written to its end yet
	for line := range bytes.Lines(whole) {
		var message struct{ ResourceSpans, ResourceLogs []scope }
		if err := json.Unmarshal(line, &message); err != nil {
			return fmt.Errorf("a line of %s is %q: %w", name, line, err)
		}
		for _, s := range append(message.ResourceSpans, message.ResourceLogs...) {
			w.entries = append(w.entries, s.entries()...)
		}
	}
	w.bytes += int64(len(whole))
	return nil
}

func (s scope) entries() (all []Entry) {
	for _, part := range append(s.ScopeSpans, s.ScopeLogs...) {
		for _, e := range append(part.Spans, part.LogRecords...) {
			e.Resource = s.Resource.Attributes
			all = append(all, e)
		}
	}
	return all
}

// Attributes are what is said of something, by name.
type Attributes map[string]string

// UnmarshalJSON reads the form of OTLP in JSON.
func (a *Attributes) UnmarshalJSON(text []byte) error {
	var list []struct {
		Key   string
		Value Value
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	*a = Attributes{}
	for _, one := range list {
		(*a)[one.Key] = string(one.Value)
	}
	return nil
}

// Value is one of OTLP, as a text.
type Value string

// UnmarshalJSON reads the form of OTLP in JSON: {"stringValue": "text"}.
func (v *Value) UnmarshalJSON(text []byte) error {
	var typed map[string]any
	if err := json.Unmarshal(text, &typed); err != nil {
		return err
	}
	for _, value := range typed {
		*v = Value(fmt.Sprint(value))
	}
	return nil
}
