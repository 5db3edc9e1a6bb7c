// Command schemagen writes the table of types and fields that specs are checked against
// (kinds/schema/schema.json), and what the CRDs say of fields (kinds/jsonschema/descriptions.json.gz).
//
// The fields of Istio's specs come from the protobuf descriptors, which are linked in. Istio's CRDs
// add what a descriptor cannot express: ranges, sizes, patterns. Kinds without protobuf messages
// are converted from their CRDs. The CRDs are read from the modules that publish them, at the
// versions below. These are downloaded if necessary, and are no dependencies of this module.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/schema"
)

const (
	istioModule     = "istio.io/api" // at the version in go.mod, like the linked descriptors
	gatewayModule   = "sigs.k8s.io/gateway-api@v1.6.1"
	inferenceModule = "sigs.k8s.io/gateway-api-inference-extension@v1.5.0"
)

func main() {
	out := flag.String("o", "schema.json", "the file to write")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "schemagen:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	crds, err := allCRDs()
	if err != nil {
		return err
	}
	table, err := generate(crds)
	if err != nil {
		return err
	}
	texts, err := describe(table, crds)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(out), "..", "jsonschema", "descriptions.json.gz"), texts, 0o644); err != nil {
		return err
	}
	text := render(table)
	if err := os.WriteFile(out, text, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(out+".gz", compressed(text), 0o644); err != nil {
		return err
	}
	return compressFiles(filepath.Dir(out))
}

// compressFiles compresses the files of a folder that people write.
func compressFiles(folder string) error {
	files, err := schema.ReadFiles(os.DirFS(folder))
	if err != nil {
		return err
	}
	text, err := json.Marshal(files)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "files.json.gz"), compressed(text), 0o644)
}

// compressed is what programs have of a text.
func compressed(text []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // it is a level
	_, _ = w.Write(text)                                    // into memory
	_ = w.Close()
	return out.Bytes()
}

// allCRDs reads the definitions of all kinds.
func allCRDs() ([]crd, error) {
	istio, err := readCRDs(istioModule, "kubernetes/customresourcedefinitions.gen.yaml")
	if err != nil {
		return nil, err
	}
	// The experimental channel includes the standard one.
	gateway, err := readCRDs(gatewayModule, "config/crd/experimental/*.networking*k8s.io_*.yaml")
	if err != nil {
		return nil, err
	}
	inference, err := readCRDs(inferenceModule, "config/crd/bases/*.yaml")
	if err != nil {
		return nil, err
	}
	return slices.Concat(istio, gateway, inference), nil
}

func generate(crds []crd) (*schema.Table, error) {
	table := &schema.Table{Roots: map[string]string{}, Types: map[string]*schema.Type{}}
	messages := newMessages(table.Types)
	for _, k := range kinds.All() {
		id := k.Group + "/" + k.Name
		spec := findSpec(crds, k)
		var err error
		switch {
		case k.Message != "":
			table.Roots[id] = string(k.Message)
			err = messages.add(k.Message, spec)
		case spec != nil:
			table.Roots[id] = id
			err = convert(table.Types, id, spec)
		default:
			err = fmt.Errorf("no CRD defines %s", id)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
	}
	messages.constrain()
	return table, override(table.Types)
}

// render writes one root or type per line, so that a change of the table gives a readable diff.
func render(t *schema.Table) []byte {
	var b bytes.Buffer
	b.WriteString("{\n\"roots\": {\n")
	renderMap(&b, t.Roots)
	b.WriteString("},\n\"types\": {\n")
	renderMap(&b, t.Types)
	b.WriteString("}\n}\n")
	return b.Bytes()
}

func renderMap[V any](b *bytes.Buffer, m map[string]V) {
	for i, key := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b.WriteString(",\n")
		}
		fmt.Fprintf(b, "%q: %s", key, compact(m[key]))
	}
	b.WriteString("\n")
}

func compact(v any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(err) // strings and numbers only
	}
	return bytes.TrimSpace(b.Bytes())
}
