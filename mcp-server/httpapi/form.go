package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// jsonForm reads and writes JSON.
type jsonForm struct{}

// ContentType is the type of a single answer.
func (jsonForm) ContentType(any) string { return "application/json" }

// StreamContentType is the type of a stream, which has one line for each message.
func (jsonForm) StreamContentType(any) string { return "application/x-ndjson" }

// Delimiter ends a message of a stream.
func (jsonForm) Delimiter() []byte { return []byte("\n") }

// Marshal indents a single answer, and writes a message of a stream on one line.
func (jsonForm) Marshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case proto.Message:
		line, err := compact(v)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if err := json.Indent(&b, line, "", "  "); err != nil {
			return nil, err
		}
		b.WriteByte('\n')
		return b.Bytes(), nil
	case []*adminv1.ScrapeTarget:
		return list(v)
	case map[string]any: // a message of a stream; its only member, result, is left out
		return compact(v["result"].(proto.Message))
	case map[string]proto.Message: // the error that ends a stream
		line, err := compact(v["error"])
		if err != nil {
			return nil, err
		}
		return fmt.Appendf(nil, `{"error":%s}`, line), nil
	}
	return nil, fmt.Errorf("%T cannot be answered", v)
}

// list writes an answer that is a list alone, as Prometheus wants it.
func list[M proto.Message](of []M) ([]byte, error) {
	all := make([]json.RawMessage, len(of))
	for i, m := range of {
		var err error
		if all[i], err = compact(m); err != nil {
			return nil, err
		}
	}
	text, err := json.MarshalIndent(all, "", "  ")
	return append(text, '\n'), err
}

// compact writes a message as JSON without spaces, which the library puts in at random. It writes
// the message's own empty lists too, so that programs need not check for them.
func compact(m proto.Message) ([]byte, error) {
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		return nil, err
	}
	empty := emptyLists(m.ProtoReflect())
	if len(empty) == 0 {
		return b.Bytes(), nil
	}
	line := bytes.TrimSuffix(b.Bytes(), []byte("}"))
	for _, name := range empty {
		if len(line) > 1 {
			line = append(line, ',')
		}
		line = fmt.Appendf(line, "%q:[]", name)
	}
	return append(line, '}'), nil
}

// adminPackage is the package of our answers. Messages of errors are from other packages.
var adminPackage = adminv1.File_pgmesh_admin_v1_admin_proto.Package()

func emptyLists(m protoreflect.Message) []string {
	var names []string
	if m.Descriptor().ParentFile().Package() != adminPackage {
		return nil
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); f.IsList() && m.Get(f).List().Len() == 0 {
			names = append(names, f.JSONName())
		}
	}
	return names
}

// Unmarshal reads a part of a request.
func (jsonForm) Unmarshal(data []byte, v any) error {
	if documents, are := v.(*[]*adminv1.Document); are {
		*documents = manifest(data)
		return nil
	}
	if issuer, is := v.(**adminv1.JoinIssuer); is { // a field of a request, still nil
		*issuer = &adminv1.JoinIssuer{}
		v = *issuer
	}
	m, is := v.(proto.Message)
	if !is {
		return fmt.Errorf("%T cannot be asked", v)
	}
	return protojson.Unmarshal(data, m)
}

// NewDecoder reads a body.
func (f jsonForm) NewDecoder(r io.Reader) runtime.Decoder { return decoder(r, f.Unmarshal) }

// NewEncoder writes answers.
func (f jsonForm) NewEncoder(w io.Writer) runtime.Encoder { return encoder(w, f.Marshal) }

// manifest wraps a body that holds resources, in JSON or YAML, as one document.
func manifest(data []byte) []*adminv1.Document {
	return []*adminv1.Document{{Content: data, Line: 1}}
}

func decoder(r io.Reader, unmarshal func([]byte, any) error) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		data, err := io.ReadAll(r)
		if tooLarge, is := errors.AsType[*http.MaxBytesError](err); is {
			return fmt.Errorf("the body is larger than %d bytes: import it by mcp-client, which sends it in portions", tooLarge.Limit)
		}
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(data)) == 0 {
			return io.EOF
		}
		return unmarshal(data, v)
	})
}

func encoder(w io.Writer, marshal func(any) ([]byte, error)) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error {
		text, err := marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	})
}

// yamlForm reads and writes YAML.
type yamlForm struct{ jsonForm }

// ContentType is the type of a single answer.
func (yamlForm) ContentType(any) string { return "application/yaml" }

// StreamContentType is the type of a stream, which has one document for each message.
func (yamlForm) StreamContentType(any) string { return "application/yaml" }

// Delimiter ends a message of a stream.
func (yamlForm) Delimiter() []byte { return []byte("---\n") }

// Marshal writes an answer.
func (yamlForm) Marshal(v any) ([]byte, error) {
	text, err := jsonForm{}.Marshal(v)
	if err != nil {
		return nil, err
	}
	return kinds.YAML(text)
}

// Unmarshal reads a part of a request.
func (f yamlForm) Unmarshal(data []byte, v any) error {
	if _, are := v.(*[]*adminv1.Document); are {
		return f.jsonForm.Unmarshal(data, v)
	}
	var tree any
	if err := yaml.Unmarshal(data, &tree); err != nil {
		return err
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	return f.jsonForm.Unmarshal(text, v)
}

// NewDecoder reads a body.
func (f yamlForm) NewDecoder(r io.Reader) runtime.Decoder { return decoder(r, f.Unmarshal) }

// NewEncoder writes answers.
func (f yamlForm) NewEncoder(w io.Writer) runtime.Encoder { return encoder(w, f.Marshal) }
