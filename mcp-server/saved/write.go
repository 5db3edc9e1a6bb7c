package saved

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	savedv1 "github.com/pgmesh/pgmesh/proto/pgmesh/saved/v1"
)

// Write encodes a state and the places that it was read from. It encodes one resource at a time, to
// save memory.
func Write(to io.Writer, s *publish.State, places []string) error {
	sum := sha256.New()
	out := bufio.NewWriterSize(io.MultiWriter(to, sum), 1<<16)
	if _, err := fmt.Fprintln(out, title+version); err != nil {
		return err
	}
	header := &savedv1.Header{Mesh: s.Mesh, Revision: s.At.Revision, Mark: s.At.Mark, AsOf: timestamppb.New(s.AsOf), Places: places}
	for _, joined := range s.Joined {
		header.Registries = append(header.Registries, &savedv1.Registry{Name: joined.Name, AsOf: timestamppb.New(joined.AsOf)})
	}
	if err := put(out, &savedv1.Record{Record: &savedv1.Record_Header{Header: header}}); err != nil {
		return err
	}
	if err := writeResources(out, s); err != nil {
		return err
	}
	end := &savedv1.End{Resources: int64(s.Len())}
	if err := put(out, &savedv1.Record{Record: &savedv1.Record_End{End: end}}); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err := to.Write(sum.Sum(nil))
	return err
}

func writeResources(out io.Writer, s *publish.State) error {
	w := &resourceWriter{out: out}
	for kind, set := range s.Sets {
		for r := range set.All() {
			w.write(kind, r, "")
		}
	}
	for _, joined := range s.Joined {
		for kind, content := range joined.Content {
			for _, r := range content {
				w.write(kind, r, joined.Name)
			}
		}
	}
	return w.err
}

// resourceWriter writes resources until one fails.
type resourceWriter struct {
	out    io.Writer
	record savedv1.Resource // used for each
	err    error
}

func (w *resourceWriter) write(kind *kinds.Kind, r *served.Resource, registry string) {
	if w.err != nil {
		return
	}
	w.record.TypeUrl, w.record.Registry = kind.TypeURL(), registry
	w.record.Name, w.record.Version = r.Name, r.Version
	w.record.BodyTypeUrl, w.record.Body = r.Body.GetTypeUrl(), r.Body.GetValue()
	w.err = put(w.out, &savedv1.Record{Record: &savedv1.Record_Resource{Resource: &w.record}})
}

func put(out io.Writer, r *savedv1.Record) error {
	_, err := protodelim.MarshalTo(out, r)
	return err
}
