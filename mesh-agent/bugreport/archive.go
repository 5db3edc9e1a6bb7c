// Package bugreport collects what is needed to debug an agent, without secrets: keys, tokens, and
// credentials in headers.
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

// archive is a report being written.
type archive struct {
	out     *tar.Writer
	redact  *Redactor
	folder  string
	at      time.Time
	missing bytes.Buffer // what could not be collected, and why
	err     error        // the first error of writing it
}

// maxSourceBytes bounds a file in a report.
const maxSourceBytes = 64 << 20

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

// text adds a redacted text.
func (a *archive) text(name string, content []byte, err error) {
	a.addMissing(name, err)
	if len(content) > 0 {
		a.add(name, a.redact.Text(content))
	}
}

// json adds a redacted document.
func (a *archive) json(name string, content []byte, err error) {
	a.addMissing(name, err)
	if len(content) > 0 {
		a.add(name, a.redact.JSON(content))
	}
}

func (a *archive) addMissing(name string, err error) {
	if err != nil {
		fmt.Fprintf(&a.missing, "%s: %s\n", name, a.redact.Text([]byte(err.Error())))
	}
}

// Source is a file of a report. Read has to end with its context.
type Source struct {
	Name string // the file's name
	Read func(context.Context) ([]byte, error)
}

// Options say what to report.
type Options struct {
	StateDir string
	// Files lists files with secrets to redact everywhere, and Secrets such secrets.
	Files, Secrets []string
	Sources        []Source
}

// sourceTimeout bounds the reading of a source.
const sourceTimeout = 20 * time.Second

// Write writes a report as a .tar.gz, and returns what could not be collected. Only a failure to
// write it is an error.
func Write(ctx context.Context, out io.Writer, now time.Time, o Options) (missing string, err error) {
	packed := gzip.NewWriter(out)
	a := &archive{out: tar.NewWriter(packed), redact: &Redactor{}, folder: "mesh-agent-" + now.UTC().Format("20060102-150405"), at: now}
	for _, s := range o.Secrets {
		a.redact.AddSecret(s)
	}
	a.addSecretFiles(o)
	for _, s := range o.Sources {
		content, err := readSource(ctx, s)
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

func readSource(ctx context.Context, s Source) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, sourceTimeout)
	defer cancel()
	content, err := s.Read(ctx)
	if len(content) > maxSourceBytes {
		content, err = content[:maxSourceBytes], errors.Join(err, fmt.Errorf("only the first %d bytes are here", maxSourceBytes))
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
