package files_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

const (
	values        = "replicas: 3\nimage: web\n---\n- one\n- two\n"
	kustomization = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n"
	workflow      = "on: push\njobs: {}\n"
	ofKuma        = "type: MeshHTTPRoute\nmesh: default\nname: web\nspec: {to: []}\n"
)

// A folder of a repository has files of other programs, too.
func TestWhatIsOfOtherProgramsIsLeftOutOfFolders(t *testing.T) {
	t.Parallel()
	dir := clitest.Folder(t, map[string]string{
		"a.yaml": clitest.VirtualService("default", "a", "a"), ".github/ci.yaml": workflow, ".hidden.yaml": "kind: [", "values.yaml": values,
		"deep/kustomization.yaml": kustomization,
	})
	named := filepath.Join(dir, "values.yaml")
	r := run(t, "validate", dir)
	require.Equal(t, "1 resource is valid\n", r.Out)
	require.Zero(t, r.Code, r.Err)
	require.Contains(t, r.Err, "left out: 2 documents without apiVersion and kind: "+named+"\n")
	require.Contains(t, r.Err, "1 Kustomization (kustomize.config.k8s.io/v1beta1)")
	require.NotContains(t, r.Err, "ci.yaml")
	require.Equal(t, 1, run(t, "analyze", dir, "-o", "json").Code, "there is no host a; a mistake would be 3")

	for _, args := range [][]string{{"validate", named}, {"validate", dir, named}, {"validate", dir, "--strict"}, {"validate", filepath.Join(dir, ".hidden.yaml")}} {
		require.Equal(t, 3, run(t, args...).Code, args)
	}
	m := clitest.Start(t)
	r = m.Run("apply", "-R", "-f", dir)
	require.Zero(t, r.Code, r.Err)
	require.Contains(t, r.Err, "left out: 2 documents without apiVersion and kind: "+named+"\n")
	require.Equal(t, 1, m.Stored())
}

// Who mistypes what makes a document a resource is told so.
func TestAMistypedResourceIsNotLeftOut(t *testing.T) {
	t.Parallel()
	right := clitest.VirtualService("default", "a", "a")
	for _, wrong := range []string{
		strings.Replace(right, "apiVersion:", "apiversoin:", 1),
		strings.Replace(right, "kind:", "knid:", 1),
		strings.Replace(strings.Replace(right, "kind:", "kidn:", 1), "apiVersion:", "apiversoin:", 1),
		"metadata: {name: a}\nspec: {hosts: [a]}\n",
	} {
		r := run(t, "validate", clitest.Folder(t, map[string]string{"a.yaml": wrong}))
		require.Equal(t, 3, r.Code, wrong)
		require.NotContains(t, r.Err, "left out")
	}
}

func TestKumasFormIsTold(t *testing.T) {
	t.Parallel()
	dir := clitest.Folder(t, map[string]string{"kuma.yaml": ofKuma})
	for _, at := range []string{dir, filepath.Join(dir, "kuma.yaml")} {
		r := run(t, "validate", at)
		require.Equal(t, 3, r.Code)
		require.Contains(t, r.Err, "kuma.yaml: document 1, line 1: MeshHTTPRoute web: type: MeshHTTPRoute in this form is a resource of Kuma (mcp-client import --from kuma ")
		require.Contains(t, r.Err, "error: 1 mistake\n")
	}
	require.NotContains(t, run(t, "convert", "-f", dir).Err, "--from", "it finds out by itself")
}

func run(t *testing.T, args ...string) clitest.Result {
	t.Helper()
	return clitest.Run(t.Context(), "", nil, args...)
}
