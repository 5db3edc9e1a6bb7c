// Package bugreport collects what somebody needs who is to find out what is wrong with an agent, without what is nobody's business: keys, tokens,
// and what is in headers that prove who somebody is.
package bugreport

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
)

// archive is a report while it is written.
type archive struct {
	out     *tar.Writer
	redact  *Redactor
	folder  string
	at      time.Time
	missing bytes.Buffer // what could not be had, and why
	err     error        // why it cannot be written
}

// mostBytes is how much of one thing goes into a report.
const mostBytes = 64 << 20

func (a *archive) add(name string, content []byte) {
	if a.err != nil {
		return
	}
	header := &tar.Header{Name: path.Join(a.folder, name), Mode: 0o600, Size: int64(len(content)), ModTime: a.at, Format: tar.FormatPAX}
	a.err = a.out.WriteHeader(header)
	if a.err == nil {
		_, a.err = a.out.Write(content)
	}
}

// text adds a text without its secrets.
func (a *archive) text(name string, content []byte, err error) {
	a.lack(name, err)
	if len(content) > 0 {
		a.add(name, a.redact.Text(content))
	}
}

// json adds a document without its secrets.
func (a *archive) json(name string, content []byte, err error) {
	a.lack(name, err)
	if len(content) > 0 {
		a.add(name, a.redact.JSON(content))
	}
}

func (a *archive) lack(name string, err error) {
	if err != nil {
		fmt.Fprintf(&a.missing, "%s: %s\n", name, a.redact.Text([]byte(err.Error())))
	}
}

// Source is one thing in a report, which a context ends.
type Source struct {
	Name string // of the file
	Read func(context.Context) ([]byte, error)
}

// Options say what a report is of.
type Options struct {
	StateDir string
	// Files have secrets that are nowhere to be in the report, and Secrets are such.
	Files, Secrets []string
	Sources        []Source
}

// sourceWithin is how long one thing may take.
const sourceWithin = 20 * time.Second

// Write writes a report as a .tar.gz, and returns what could not be had. Only what cannot be written is an error.
func Write(ctx context.Context, out io.Writer, now time.Time, o Options) (missing string, err error) {
	packed := gzip.NewWriter(out)
	a := &archive{out: tar.NewWriter(packed), redact: &Redactor{}, folder: "mesh-agent-" + now.UTC().Format("20060102-150405"), at: now}
	for _, s := range o.Secrets {
		a.redact.Know(s)
	}
	a.knowFiles(o)
	for _, s := range o.Sources {
		content, err := limited(ctx, s)
		if strings.HasSuffix(s.Name, ".json") {
			a.json(s.Name, content, err)
			continue
		}
		a.text(s.Name, content, err)
	}
	a.add("README", []byte(readme))
	if a.missing.Len() > 0 {
		a.add("missing.txt", a.missing.Bytes())
	}
	return a.missing.String(), errors.Join(a.err, a.out.Close(), packed.Close(), ctx.Err())
}

func limited(ctx context.Context, s Source) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, sourceWithin)
	defer cancel()
	content, err := s.Read(ctx)
	if len(content) > mostBytes {
		content, err = content[:mostBytes], errors.Join(err, fmt.Errorf("only the first %d bytes are here", mostBytes))
	}
	return content, err
}

const readme = `This was collected by mesh-agent bug-report, for whoever is to find out what is wrong with an agent.

agent/      what the agent says of itself, its settings and its last lines
envoy/      what Envoy has and does, by its admin API
machine/    the machine: kernel, memory, network, name resolution
state.txt   what is in the state folder, without the contents
missing.txt what could not be had, and why

Keys, tokens, passwords and the values of headers that prove who somebody is were replaced by (redacted), here and in logs and configuration.
Access logs are left out. Look through it nevertheless before you give it away: names of hosts, services and accounts are in it.
`
