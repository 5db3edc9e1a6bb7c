package saved

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"strings"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	savedv1 "github.com/pgmesh/pgmesh/proto/pgmesh/saved/v1"
)

// Read decodes what Write wrote, of the given size in bytes, and returns the places it was saved
// from. Its error is a DamagedError unless reading failed. It skips kinds that this program does
// not know.
func Read(from io.Reader, size int64) (*publish.State, []string, error) {
	r := &reader{in: bufio.NewReaderSize(from, 1<<16), sum: sha256.New(), left: size, resources: map[*kinds.Kind][]*served.Resource{}}
	err := r.read()
	switch {
	case r.failed != nil:
		return nil, nil, r.failed
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return nil, nil, damaged("it ends too early")
	case err != nil:
		return nil, nil, err
	}
	return r.state(), r.header.GetPlaces(), nil
}

// reader computes the checksum of what it reads.
type reader struct {
	in     *bufio.Reader
	sum    hash.Hash
	left   int64 // bytes of the file
	failed error // an error of reading, not of the content

	header    *savedv1.Header
	resources map[*kinds.Kind][]*served.Resource
	joined    []publish.JoinedState
	count     int64 // of the resources so far
}

// Read and ReadByte are for protodelim.
func (r *reader) Read(b []byte) (int, error) {
	n, err := r.in.Read(b)
	r.sum.Write(b[:n])
	r.left -= int64(n)
	return n, r.recordError(err)
}

func (r *reader) ReadByte() (byte, error) {
	b, err := r.in.ReadByte()
	if err == nil {
		r.sum.Write([]byte{b})
		r.left--
	}
	return b, r.recordError(err)
}

func (r *reader) recordError(err error) error {
	if err != nil && !errors.Is(err, io.EOF) {
		r.failed = err
	}
	return err
}

func (r *reader) read() error {
	if err := r.readTitle(); err != nil {
		return err
	}
	for end := false; !end; {
		record := &savedv1.Record{}
		// No record is longer than the rest of the file: a damaged length must not allocate more.
		if err := (protodelim.UnmarshalOptions{MaxSize: max(r.left, 1)}).UnmarshalFrom(r, record); err != nil {
			return notARecord(err)
		}
		var err error
		if end, err = r.takeRecord(record); err != nil {
			return err
		}
	}
	return r.readSum()
}

func notARecord(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return damaged("a record cannot be decoded: %v", err)
}

func (r *reader) readTitle() error {
	var line strings.Builder
	for line.Len() <= len(title)+20 {
		b, err := r.ReadByte()
		if err != nil {
			return err
		}
		if b == '\n' {
			break
		}
		line.WriteByte(b)
	}
	written, ok := strings.CutPrefix(line.String(), title)
	switch {
	case !ok:
		return damaged("it does not begin with %q", title)
	case written != version:
		return damaged("it has version %q of the format, and this program reads version %s", written, version)
	}
	return nil
}

// takeRecord processes a record, and reports whether it is the last.
func (r *reader) takeRecord(record *savedv1.Record) (end bool, err error) {
	if h := record.GetHeader(); h != nil {
		if r.header != nil {
			return false, damaged("it has two headers")
		}
		if err := h.GetAsOf().CheckValid(); err != nil {
			return false, damaged("its time: %v", err)
		}
		r.header = h
		return false, r.takeRegistries(h.GetRegistries())
	}
	if r.header == nil {
		return false, damaged("it has no header")
	}
	if e := record.GetEnd(); e != nil {
		if e.GetResources() != r.count {
			return false, damaged("it has %d resources where %d were written", r.count, e.GetResources())
		}
		return true, nil
	}
	if record.GetResource() == nil {
		return false, damaged("it has a record that is nothing")
	}
	r.takeResource(record.GetResource())
	return false, nil
}

func (r *reader) takeResource(saved *savedv1.Resource) {
	r.count++
	kind, known := kinds.ByTypeURL(saved.GetTypeUrl())
	if saved.GetTypeUrl() == kinds.Secret.TypeURL() {
		kind, known = kinds.Secret, true
	}
	if !known { // written by a newer or older program
		return
	}
	resource := served.NewResource(saved.GetName(), saved.GetVersion(), &anypb.Any{TypeUrl: saved.GetBodyTypeUrl(), Value: saved.GetBody()})
	if saved.GetRegistry() != "" {
		r.takeJoined(saved.GetRegistry(), kind, resource)
		return
	}
	r.resources[kind] = append(r.resources[kind], resource)
}

func (r *reader) takeRegistries(saved []*savedv1.Registry) error {
	for _, one := range saved {
		if err := one.GetAsOf().CheckValid(); err != nil {
			return damaged("the time of the registry %s: %v", one.GetName(), err)
		}
		r.joined = append(r.joined, publish.JoinedState{
			Name: one.GetName(), AsOf: one.GetAsOf().AsTime(), Content: map[*kinds.Kind]map[string]*served.Resource{},
		})
	}
	return nil
}

// takeJoined keeps what a registry had.
func (r *reader) takeJoined(registry string, kind *kinds.Kind, resource *served.Resource) {
	for _, one := range r.joined {
		if one.Name != registry {
			continue
		}
		if one.Content[kind] == nil {
			one.Content[kind] = map[string]*served.Resource{}
		}
		one.Content[kind][resource.Name] = resource
	}
}

func (r *reader) readSum() error {
	want := r.sum.Sum(nil)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(r, got); err != nil {
		return err
	}
	if !bytes.Equal(want, got) {
		return damaged("its checksum is wrong")
	}
	if _, err := r.ReadByte(); err == nil {
		return damaged("there is something after its end")
	}
	return nil
}

func (r *reader) state() *publish.State {
	s := &publish.State{
		Mesh: r.header.GetMesh(), At: publish.Position{Revision: r.header.GetRevision(), Mark: r.header.GetMark()},
		AsOf: r.header.GetAsOf().AsTime(), Sets: map[*kinds.Kind]*served.Set{}, Joined: r.joined,
	}
	for kind, resources := range r.resources {
		s.Sets[kind] = served.NewSet(resources...)
	}
	return s
}
