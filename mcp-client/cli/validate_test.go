package cli_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValidateNeedsNoServer(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"a.yaml":      virtualService("default", "a", "a") + both + virtualService("prod", "a", "a"),
		"deep/b.yaml": virtualService("default", "b", "b"), "notes.txt": "nothing",
	})
	require.Equal(t, result{0, "3 resources are valid\n", ""}, run(t.Context(), "", nil, "validate", dir))
	require.Equal(t, result{0, "1 resource is valid\n", ""}, run(t.Context(), virtualService("default", "a", "b"), nil, "validate", "-"))
	require.Equal(t, result{0, "", ""}, run(t.Context(), "", nil, "validate", dir, "-o", "name"))
	require.Equal(t, result{0, "{\n  \"resources\": 3,\n  \"violations\": []\n}\n", ""}, run(t.Context(), "", nil, "validate", dir, "-o", "json"))

	r := run(t.Context(), dump, nil, "validate", "-")
	require.Equal(t, "1 resource is valid\n", r.out)
	require.Contains(t, r.err, "2 Service (v1), 1 Deployment (apps/v1)")
	require.Equal(t, 3, run(t.Context(), dump, nil, "validate", "-", "--strict").code)
}

func TestValidateWarnsOfUnsupportedFields(t *testing.T) {
	t.Parallel()
	const telemetry = "apiVersion: telemetry.istio.io/v1\nkind: Telemetry\nmetadata: {name: t}\nspec: {accessLogging: [{disabled: true}]}\n"
	r := run(t.Context(), telemetry, nil, "validate", "-")
	require.Equal(t, result{0, "1 resource is valid\n", "warning: standard input: document 1, line 1: Telemetry default/t: pgmesh's discovery does not act on it: metrics, traces and access logs follow the MeshConfig alone\n"}, r)
	r = run(t.Context(), telemetry, nil, "validate", "-", "-o", "json")
	require.Contains(t, r.out, `"warnings": [`)
	require.Empty(t, r.err)
}

func TestValidateReportsAllMistakes(t *testing.T) {
	t.Parallel()
	files := map[string]string{"z/same.yaml": virtualService("default", "first", "a")}
	for name, mistake := range mistakes {
		files[strings.ReplaceAll(name, " ", "-")+".yaml"] = virtualService("default", "n"+strings.ReplaceAll(name, " ", "-"), "a") + both + mistake.document
	}
	dir := folder(t, files)

	r := run(t.Context(), "", nil, "validate", dir)
	require.Equal(t, 3, r.code)
	require.Empty(t, r.out)
	for name, mistake := range mistakes {
		if name != "the same resource again" {
			require.Contains(t, r.err, mistake.told)
		}
	}
	require.Contains(t, r.err, "\nerror: 7 mistakes\n")

	r = run(t.Context(), "", nil, "validate", dir, "-o", "json")
	require.Equal(t, 3, r.code)
	var answer struct {
		Violations []struct {
			File, Path, Reason string
			Line               int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(r.out), &answer))
	require.Len(t, answer.Violations, 7)
	require.NotZero(t, answer.Violations[0].Line)
	require.Equal(t, "error: 7 mistakes\n", r.err)
}

func TestValidateFindsDuplicatesAcrossFiles(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"a.yaml": virtualService("default", "x", "a"), "b.yaml": both + virtualService("default", "x", "b")})
	r := run(t.Context(), "", nil, "validate", dir)
	require.Equal(t, 3, r.code)
	require.Equal(t, filepath.Join(dir, "b.yaml")+": document 1, line 2: VirtualService default/x: metadata.name: duplicate of "+
		filepath.Join(dir, "a.yaml")+", document 1, line 1 (name each resource once)\nerror: 1 mistake\n", r.err)

	for answer, args := range map[string][]string{
		"requires at least 1 arg":           {"validate"},
		"no such file":                      {"validate", filepath.Join(dir, "gone")},
		"there is no resource of a mesh in": {"validate", "-"},
	} {
		r := run(t.Context(), "", nil, args...)
		require.NotZero(t, r.code)
		require.Contains(t, r.err, answer)
	}
}
