// Package recording reads what a control plane sent to a proxy, as the runner of the exam writes it
// down, into trees that can be compared.
package recording

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	_ "github.com/pgmesh/pgmesh/kinds/envoy" // registers Envoy's extensions, so that they are compared by their fields
)

// Resource names one resource of Envoy.
type Resource struct {
	Kind string // LDS, RDS, CDS or EDS
	Name string
}

func (r Resource) String() string { return r.Kind + " " + r.Name }

// Recording is what one proxy was sent. Kinds has those that it was asked for and answered, be it
// with nothing.
type Recording struct {
	Kinds     map[string]bool
	Resources map[Resource]map[string]any
}

// largest bounds a response: a damaged file must not ask for all memory.
const largest = 256 << 20

// Read reads a file of responses, each behind its length, in gzip. A response's nonce is the kind.
func Read(path string) (*Recording, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	r := &Recording{Kinds: map[string]bool{}, Resources: map[Resource]map[string]any{}}
	for in := bufio.NewReader(unzipped); ; {
		response, err := next(in)
		if errors.Is(err, io.EOF) {
			return r, nil
		}
		if err == nil {
			err = r.add(response)
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
	}
}

// next is io.EOF only between two responses.
func next(in *bufio.Reader) (*discoveryv3.DiscoveryResponse, error) {
	size, err := binary.ReadUvarint(in)
	if err != nil {
		return nil, err
	}
	if size > largest {
		return nil, fmt.Errorf("a response of %d bytes: more than %d are not read", size, largest)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(in, text); err != nil {
		return nil, fmt.Errorf("a response is cut off: %w", io.ErrUnexpectedEOF)
	}
	response := &discoveryv3.DiscoveryResponse{}
	return response, proto.Unmarshal(text, response)
}

func (r *Recording) add(response *discoveryv3.DiscoveryResponse) error {
	kind := response.GetNonce()
	r.Kinds[kind] = true
	for _, body := range response.GetResources() {
		message, err := anypb.UnmarshalNew(body, proto.UnmarshalOptions{})
		if err != nil {
			return err
		}
		t, err := tree(message.ProtoReflect())
		if err != nil {
			return err
		}
		r.Resources[Resource{kind, nameOf(message.ProtoReflect())}] = t
	}
	return nil
}

// nameOf reads the name, which endpoints call by another field.
func nameOf(m protoreflect.Message) string {
	field := m.Descriptor().Fields().ByName("name")
	if field == nil {
		field = m.Descriptor().Fields().ByName("cluster_name")
	}
	return m.Get(field).String()
}
