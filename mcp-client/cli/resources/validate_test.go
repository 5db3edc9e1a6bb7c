package resources_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

func TestValidateNeedsNoServer(t *testing.T) {
	t.Parallel()
	dir := clitest.Folder(t, map[string]string{
		"a.yaml":      clitest.VirtualService("default", "a", "a") + clitest.Separator + clitest.VirtualService("prod", "a", "a"),
		"deep/b.yaml": clitest.VirtualService("default", "b", "b"), "notes.txt": "nothing",
	})
	require.Equal(t, clitest.Result{Code: 0, Out: "3 resources are valid\n", Err: ""}, clitest.Run(t.Context(), "", nil, "validate", dir))
	require.Equal(t, clitest.Result{Code: 0, Out: "1 resource is valid\n", Err: ""}, clitest.Run(t.Context(), clitest.VirtualService("default", "a", "b"), nil, "validate", "-"))
	require.Equal(t, clitest.Result{Code: 0, Out: "", Err: ""}, clitest.Run(t.Context(), "", nil, "validate", dir, "-o", "name"))
	require.Equal(t, clitest.Result{Code: 0, Out: "{\n  \"resources\": 3,\n  \"violations\": []\n}\n", Err: ""}, clitest.Run(t.Context(), "", nil, "validate", dir, "-o", "json"))

	r := clitest.Run(t.Context(), dump, nil, "validate", "-")
	require.Equal(t, "1 resource is valid\n", r.Out)
	require.Contains(t, r.Err, "2 Service (v1), 1 Deployment (apps/v1)")
	require.Equal(t, 3, clitest.Run(t.Context(), dump, nil, "validate", "-", "--strict").Code)
}

func TestValidateWarnsOfUnsupportedFields(t *testing.T) {
	t.Parallel()
	const document = "apiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XBackend\nmetadata: {name: t}\nspec: {type: ExternalHostname, externalHostname: {hostname: a.example.com}, port: {port: 80}}\n"
	r := clitest.Run(t.Context(), document, nil, "validate", "-")
	require.Equal(t, clitest.Result{Code: 0, Out: "1 resource is valid\n", Err: "warning: standard input: document 1, line 1: XBackend default/t: pgmesh's discovery does not act on it: this kind is not read yet\n"}, r)
	r = clitest.Run(t.Context(), document, nil, "validate", "-", "-o", "json")
	require.Contains(t, r.Out, `"warnings": [`)
	require.Empty(t, r.Err)
}

func TestValidateReportsAllMistakes(t *testing.T) {
	t.Parallel()
	files := map[string]string{"z/same.yaml": clitest.VirtualService("default", "first", "a")}
	for name, mistake := range mistakes {
		files[strings.ReplaceAll(name, " ", "-")+".yaml"] = clitest.VirtualService("default", "n"+strings.ReplaceAll(name, " ", "-"), "a") + clitest.Separator + mistake.document
	}
	dir := clitest.Folder(t, files)

	r := clitest.Run(t.Context(), "", nil, "validate", dir)
	require.Equal(t, 3, r.Code)
	require.Empty(t, r.Out)
	for name, mistake := range mistakes {
		if name != "the same resource again" {
			require.Contains(t, r.Err, mistake.told)
		}
	}
	require.Contains(t, r.Err, "\nerror: 7 mistakes\n")

	r = clitest.Run(t.Context(), "", nil, "validate", dir, "-o", "json")
	require.Equal(t, 3, r.Code)
	var answer struct {
		Violations []struct {
			File, Path, Reason string
			Line               int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(r.Out), &answer))
	require.Len(t, answer.Violations, 7)
	require.NotZero(t, answer.Violations[0].Line)
	require.Equal(t, "error: 7 mistakes\n", r.Err)
}

func TestValidateFindsDuplicatesAcrossFiles(t *testing.T) {
	t.Parallel()
	dir := clitest.Folder(t, map[string]string{"a.yaml": clitest.VirtualService("default", "x", "a"), "b.yaml": clitest.Separator + clitest.VirtualService("default", "x", "b")})
	r := clitest.Run(t.Context(), "", nil, "validate", dir)
	require.Equal(t, 3, r.Code)
	require.Equal(t, filepath.Join(dir, "b.yaml")+": document 1, line 2: VirtualService default/x: metadata.name: duplicate of "+
		filepath.Join(dir, "a.yaml")+", document 1, line 1 (name each resource once; if the files are alternatives, name the one that you choose, such as "+filepath.Join(dir, "b.yaml")+")\nerror: 1 mistake\n", r.Err)

	for answer, args := range map[string][]string{
		"name the files to check":           {"validate"},
		"no such file":                      {"validate", filepath.Join(dir, "gone")},
		"there is no resource of a mesh in": {"validate", "-"},
	} {
		r := clitest.Run(t.Context(), "", nil, args...)
		require.NotZero(t, r.Code)
		require.Contains(t, r.Err, answer)
	}
}
