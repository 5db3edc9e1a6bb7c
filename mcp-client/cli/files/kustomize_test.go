package files_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

// What kustomize builds is applied. Any program of that name will do here; KUBECTL names a real kubectl,
// which has kustomize in it.
func TestKustomizationsAreBuiltByWhatIsInstalled(t *testing.T) {
	m := clitest.Start(t)
	folder := clitest.Folder(t, map[string]string{
		"kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamePrefix: built-\nresources: [a.yaml]\n",
		"a.yaml":             clitest.VirtualService("default", "a", "v1"),
	})
	programs := t.TempDir()
	t.Setenv("PATH", programs)
	r := m.Run("apply", "-k", folder)
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Err, "neither kustomize nor kubectl is installed here, of which one has to build a kustomization: install one, or build it where there is one, and give what is built to -f -: kustomize build "+folder)

	kustomize := filepath.Join(programs, "kustomize")
	script := "#!/bin/sh\n[ \"$1 $2\" = 'build %s' ] || { echo 'no such folder' >&2; exit 3; }\n%s sed 's/name: a$/name: built-a/' %[1]s/a.yaml\n"
	require.NoError(t, os.WriteFile(kustomize, fmt.Appendf(nil, script, folder, "PATH=/usr/bin:/bin"), 0o700))
	require.Contains(t, m.OK("apply", "-k", folder), "virtualservice default/built-a created\n")
	require.Contains(t, m.Run("create", "-k", "gone").Err, "kustomize build gone: exit status 3: no such folder")

	require.Equal(t, clitest.Result{}, m.Run("diff", "-k", folder), "it is as it was applied")
	require.Contains(t, m.OK("delete", "-k", folder), "virtualservice default/built-a deleted\n")
	r = m.Run("diff", "-k", folder)
	require.Equal(t, 1, r.Code, r.Err)
	require.Contains(t, r.Out, "+  name: built-a\n")
	m.OK("apply", "-k", folder)

	if kubectl := os.Getenv("KUBECTL"); kubectl != "" {
		require.NoError(t, os.Remove(kustomize))
		require.NoError(t, os.Symlink(kubectl, filepath.Join(programs, "kubectl")))
		require.Contains(t, m.OK("apply", "-k", folder), "virtualservice default/built-a unchanged\n")
		require.Contains(t, m.Run("apply", "-k", "gone").Err, "kubectl kustomize gone: exit status 1: error: ")
	}
}
