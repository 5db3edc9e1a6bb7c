package store_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/kinds"
)

// exam is a document that both validators judge.
type exam struct {
	name string // where it is from
	kind *kinds.Kind
	meta kinds.Meta
	spec json.RawMessage
}

func (e exam) String() string { return fmt.Sprintf("%s: %s %s", e.name, e.kind, e.spec) }

// tree is the spec as Go takes it.
func (e exam) tree(t testing.TB) (tree any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(e.spec))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&tree))
	return tree
}

// metadata is what it has as SQL takes it.
func (e exam) metadata() map[string]any {
	return map[string]any{
		"name": e.meta.Name, "namespace": e.meta.Namespace, "labels": notNil(e.meta.Labels), "annotations": notNil(e.meta.Annotations),
	}
}

func notNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// document is a resource as people write it.
type document struct {
	APIVersion string `json:"apiVersion" yaml:"apiVersion"`
	Kind       string
	Metadata   struct {
		Name, Namespace     string
		Labels, Annotations map[string]string
	}
	Spec any
}

func (d document) exam(t testing.TB, name string) exam {
	t.Helper()
	kind, err := kinds.ByAPIVersion(d.APIVersion, d.Kind)
	require.NoError(t, err, name)
	if d.Spec == nil {
		d.Spec = map[string]any{}
	}
	spec, err := json.Marshal(d.Spec)
	require.NoError(t, err, name)
	m := d.Metadata
	return exam{name, kind, kinds.Meta{Name: m.Name, Namespace: m.Namespace, Labels: m.Labels, Annotations: m.Annotations}, spec}
}

// Each of the bad documents breaks one rule, and both say which, in the same words.
func TestBadDocumentsAreRefused(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	n := 0
	for file, text := range testdata(t, "invalid") {
		for i, bad := range decodeAll[struct {
			Want struct {
				Path, Reason string
				Also         []string // the paths of what follows from it
			}
			Object document
		}](t, file, text) {
			e := bad.Object.exam(t, fmt.Sprintf("%s: document %d", file, i+1))
			found := db.requireAgreement(e)
			require.NotEmpty(t, found, "%s is not refused", e)
			require.Equal(t, bad.Want.Path+": "+bad.Want.Reason, withoutHint(found[0]), e)
			require.Len(t, found, 1+len(bad.Want.Also), "%s: %q", e, found)
			for j, path := range bad.Want.Also {
				require.Equal(t, path, strings.SplitN(found[1+j], ": ", 2)[0], e)
			}
			n++
		}
	}
	t.Logf("%d bad documents", n)
}

func withoutHint(problem string) string {
	return problem[:strings.LastIndex(problem, " (")]
}

func TestGoodDocumentsAreAccepted(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	slow := 0
	for file, text := range testdata(t, "valid") {
		for i, good := range decodeAll[document](t, file, text) {
			e := good.exam(t, fmt.Sprintf("%s: document %d", file, i+1))
			require.Empty(t, db.requireAgreement(e), e)
			if !db.passes(e) {
				slow++
			}
		}
	}
	t.Logf("%d of them are not passed by the quick check", slow)
}

// What another validation says of documents can be compared with what ours do:
// PGMESH_VALIDATION_CORPUS names a file with a JSON object a line, which has id, object and whether
// it is valid.
func TestValidatorsAgreeWithACorpus(t *testing.T) {
	t.Parallel()
	path := os.Getenv("PGMESH_VALIDATION_CORPUS")
	if path == "" {
		t.Skip("PGMESH_VALIDATION_CORPUS is not set")
	}
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	db := connect(t, pgtest.New(t))
	total, agreed := map[string]int{}, map[string]int{}
	for lines := json.NewDecoder(file); ; {
		var verdict struct {
			ID, Level, Error string
			Valid            bool
			Object           document
		}
		err := lines.Decode(&verdict)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		e := verdict.Object.exam(t, verdict.ID)
		found := []string{"jsonb does not take the character NUL"}
		if !bytes.Contains(e.spec, []byte(`\u0000`)) {
			found = db.requireAgreement(e)
		}
		class := fmt.Sprintf("%s, valid: %t", verdict.Level, verdict.Valid)
		total[class]++
		if (len(found) == 0) == verdict.Valid {
			agreed[class]++
		} else {
			t.Logf("%s: %s %s: it says %q, and ours %q", class, verdict.ID, verdict.Object.Kind, verdict.Error, found)
		}
	}
	for _, class := range slices.Sorted(maps.Keys(total)) {
		t.Logf("%s: agreed on %d of %d", class, agreed[class], total[class])
	}
}

// testdata reads the documents that the tests of the kinds have in a folder.
func testdata(t testing.TB, folder string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("../kinds/testdata/" + folder + "/*.yaml")
	require.NoError(t, err)
	texts := map[string][]byte{}
	for _, file := range files {
		texts[filepath.Base(file)], err = os.ReadFile(file)
		require.NoError(t, err)
	}
	return texts
}

func decodeAll[T any](t testing.TB, name string, text []byte) (all []T) {
	t.Helper()
	documents := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var one T
		err := documents.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err, name)
		all = append(all, one)
	}
}
