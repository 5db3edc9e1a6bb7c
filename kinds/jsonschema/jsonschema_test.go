package jsonschema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/jsonschema"
)

var update = flag.Bool("update", false, "write testdata/unsaid.txt anew")

// compile compiles all schemas, as files of a folder.
func compile(t *testing.T) *validator.Compiler {
	t.Helper()
	c := validator.NewCompiler()
	for path, text := range jsonschema.Files() {
		tree, err := validator.UnmarshalJSON(bytes.NewReader(text))
		require.NoError(t, err, path)
		require.NoError(t, c.AddResource("http://schemas.test/"+path, tree), path)
	}
	return c
}

// documents yields the documents of the files of a folder, as JSON trees.
func documents(t *testing.T, folder string, each func(at string, tree any)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "testdata", folder, "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		decoder := yaml.NewDecoder(bytes.NewReader(content))
		for n := 1; ; n++ {
			var tree any
			err := decoder.Decode(&tree)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, file)
			if tree == nil {
				continue
			}
			text, err := json.Marshal(tree)
			require.NoError(t, err, file)
			tree, err = validator.UnmarshalJSON(bytes.NewReader(text))
			require.NoError(t, err)
			each(fmt.Sprintf("%s, document %d", filepath.Base(file), n), tree)
		}
	}
}

// schemaOf returns the schema that a document is for, nil if it names no kind.
func schemaOf(t *testing.T, c *validator.Compiler, tree any) *validator.Schema {
	t.Helper()
	parts, is := tree.(map[string]any)
	if !is {
		return nil
	}
	apiVersion, _ := parts["apiVersion"].(string)
	name, _ := parts["kind"].(string)
	kind, err := kinds.ByAPIVersion(apiVersion, name)
	if err != nil {
		return nil
	}
	_, version, _ := strings.Cut(apiVersion, "/")
	s, err := c.Compile("http://schemas.test/" + jsonschema.Path(kind, version))
	require.NoError(t, err)
	return s
}

func TestValidDocumentsFitTheirSchemas(t *testing.T) {
	t.Parallel()
	c := compile(t)
	all, err := c.Compile("http://schemas.test/" + jsonschema.AllPath)
	require.NoError(t, err)
	n := 0
	documents(t, "valid", func(at string, tree any) {
		s := schemaOf(t, c, tree)
		require.NotNil(t, s, at)
		if err := s.Validate(tree); err != nil {
			t.Errorf("%s: %v", at, err)
		}
		if err := all.Validate(tree); err != nil {
			t.Errorf("%s, by the schema of all: %v", at, err)
		}
		n++
	})
	require.Greater(t, n, 100)
}

// What is wrong by the rules of a schema is refused. The others are listed.
func TestInvalidDocuments(t *testing.T) {
	t.Parallel()
	c := compile(t)
	refused, unsaid := 0, strings.Builder{}
	documents(t, "invalid", func(at string, tree any) {
		parts := tree.(map[string]any)
		s := schemaOf(t, c, parts["object"])
		switch {
		case s == nil:
		case s.Validate(parts["object"]) != nil:
			refused++
		default:
			want := parts["want"].(map[string]any)
			fmt.Fprintf(&unsaid, "%s: %s: %s\n", at, want["path"], want["reason"])
		}
	})
	const file = "testdata/unsaid.txt"
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(unsaid.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), unsaid.String(), "go test ./kinds/jsonschema -update writes the list anew")
	t.Logf("%d refused, %d left to pgmesh", refused, strings.Count(unsaid.String(), "\n"))
	require.Greater(t, refused, 170)
}

// The examples name a schema that an mcp-server serves, and are right by it.
func TestExamplesNameTheirSchema(t *testing.T) {
	t.Parallel()
	c := compile(t)
	for _, file := range []string{"demo/canary.yaml", "compose/mesh.yaml"} {
		content, err := os.ReadFile(filepath.Join("..", "..", "deploy", file))
		require.NoError(t, err)
		const named = "# yaml-language-server: $schema=http://127.0.0.1:15022/schemas/"
		line, _, _ := strings.Cut(string(content), "\n")
		path, is := strings.CutPrefix(line, named)
		require.True(t, is, file)
		require.Equal(t, 1+strings.Count(string(content), "\n---\n"), strings.Count(string(content), named), "%s: it is for one document", file)
		s, err := c.Compile("http://schemas.test/" + path)
		require.NoError(t, err, file)
		decoder := yaml.NewDecoder(bytes.NewReader(content))
		for {
			var tree any
			err := decoder.Decode(&tree)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, file)
			text, err := json.Marshal(tree)
			require.NoError(t, err, file)
			tree, err = validator.UnmarshalJSON(bytes.NewReader(text))
			require.NoError(t, err)
			require.NoError(t, s.Validate(tree), file)
			tree.(map[string]any)["spec"].(map[string]any)["mistyped"] = true
			require.Error(t, s.Validate(tree), file)
		}
	}
}
