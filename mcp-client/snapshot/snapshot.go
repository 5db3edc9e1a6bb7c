// Package snapshot stores the whole state of a server in a file, to inspect it later, compare it
// with another, or restore it. The server can be any that speaks MCP.
//
// The file is text, one JSON value per line, compressed if its name ends in .gz:
//
//	{"format":"pgmesh.io/snapshot/v1","server":"127.0.0.1:15020","revision":12,"taken":"2030-01-02T03:04:05Z"}
//	{"version":"c1…","resource":{"apiVersion":"networking.istio.io/v1","kind":"VirtualService","metadata":{…},"spec":{…}}}
//	{"resources":1,"sha256":"…"}
//
// The last line has the hash of all bytes before it, so that a truncated or damaged file is
// recognized.
package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pgmesh/pgmesh/kinds"
)

// Format is the format in the first line of a file.
const Format = "pgmesh.io/snapshot/v1"

// Header describes a snapshot.
type Header struct {
	Format string `json:"format"`
	// Server is the address of the server.
	Server string `json:"server"`
	// Revision is the server's revision, 0 if it has none.
	Revision int64     `json:"revision"`
	Taken    time.Time `json:"taken"`
}

// Entry is a resource and its version on the server.
type Entry struct {
	Resource *kinds.Resource
	Version  string
}

// ErrDamaged is the error of a file that is not a complete snapshot.
var ErrDamaged = errors.New("not a whole snapshot")

// line is an entry as written, trailer the last line of the file.
type (
	line struct {
		Version  string          `json:"version,omitempty"`
		Resource json.RawMessage `json:"resource"`
	}
	trailer struct {
		Resources *int   `json:"resources"`
		SHA256    string `json:"sha256"`
	}
	document struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Metadata   metadata `json:"metadata"`
		// Spec is the message as protojson.
		Spec json.RawMessage `json:"spec"`
	}
	metadata struct {
		Name              string            `json:"name"`
		Namespace         string            `json:"namespace,omitempty"`
		Labels            map[string]string `json:"labels,omitempty"`
		Annotations       map[string]string `json:"annotations,omitempty"`
		CreationTimestamp *time.Time        `json:"creationTimestamp,omitempty"`
	}
)

func (e Entry) encode() ([]byte, error) {
	r := e.Resource
	spec, err := r.SpecJSON()
	if err != nil {
		return nil, err
	}
	d := document{r.Kind.APIVersion(), r.Kind.Name, metadata{r.Name, r.Namespace, r.Labels, r.Annotations, nil}, spec}
	if !r.CreateTime.IsZero() {
		utc := r.CreateTime.UTC()
		d.Metadata.CreationTimestamp = &utc
	}
	text, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", r.Key(), err)
	}
	return json.Marshal(line{e.Version, text})
}

func (l line) decode() (Entry, error) {
	var d document
	if err := json.Unmarshal(l.Resource, &d); err != nil {
		return Entry{}, err
	}
	kind, err := kinds.ByAPIVersion(d.APIVersion, d.Kind)
	if err != nil {
		return Entry{}, err
	}
	if d.Metadata.Name == "" {
		return Entry{}, fmt.Errorf("a %s without a name", kind)
	}
	r := &kinds.Resource{Kind: kind, Namespace: d.Metadata.Namespace, Name: d.Metadata.Name, Labels: d.Metadata.Labels, Annotations: d.Metadata.Annotations}
	if t := d.Metadata.CreationTimestamp; t != nil {
		r.CreateTime = *t
	}
	spec, err := kind.Decode(d.Spec)
	if err != nil {
		return Entry{}, fmt.Errorf("%s: %w", r.Key(), err)
	}
	r.Spec = kinds.SpecOf(spec)
	return Entry{r, l.Version}, nil
}
