package mirror_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/deploy/release/mirror"
)

func pack(t *testing.T, folder, version string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(program, []byte("of "+version), 0o700))
	for _, platform := range []string{"linux_amd64", "darwin_arm64"} {
		require.NoError(t, mirror.Pack(folder, "pgmesh", version, platform, time.Unix(1_700_000_000, 0), mirror.File{Name: "terraform-provider-pgmesh_v1", Path: program, Mode: 0o755}))
	}
}

func read(t *testing.T, path string) (tree map[string]any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &tree))
	return tree
}

// The next version stands beside the one before, and archives are the same wherever they are made.
func TestVersions(t *testing.T) {
	site := t.TempDir()
	for _, version := range []string{"1.0.0~rc1", "1.0.0"} {
		folder, again := t.TempDir(), t.TempDir()
		pack(t, folder, version)
		require.NoError(t, mirror.Publish(site, folder, "pgmesh", version))
		t.Setenv("TZ", "Asia/Tokyo") // so this test runs alone
		pack(t, again, version)
		for _, platform := range []string{"linux_amd64", "darwin_arm64"} {
			name := "terraform-provider-pgmesh_" + mirror.Version(version) + "_" + platform + ".zip"
			one, err := os.ReadFile(filepath.Join(folder, name))
			require.NoError(t, err)
			other, err := os.ReadFile(filepath.Join(again, name))
			require.NoError(t, err)
			require.Equal(t, one, other)
		}
	}
	for _, host := range mirror.Hosts {
		folder := filepath.Join(site, host, "pgmesh", "pgmesh")
		require.Equal(t, map[string]any{"versions": map[string]any{"1.0.0-rc1": map[string]any{}, "1.0.0": map[string]any{}}}, read(t, filepath.Join(folder, "index.json")))
		archives := read(t, filepath.Join(folder, "1.0.0.json"))["archives"].(map[string]any)
		require.Len(t, archives, 2)
		one := archives["linux_amd64"].(map[string]any)
		require.Equal(t, "terraform-provider-pgmesh_1.0.0_linux_amd64.zip", one["url"])
		require.Len(t, one["hashes"], 2)
		require.FileExists(t, filepath.Join(folder, "terraform-provider-pgmesh_1.0.0-rc1_darwin_arm64.zip"))
	}
	require.ErrorContains(t, mirror.Publish(site, t.TempDir(), "pgmesh", "2.0.0"), "there is no terraform-provider-pgmesh_2.0.0_")
}
