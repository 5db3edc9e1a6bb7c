package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/deploy/release/attest"
	"github.com/pgmesh/pgmesh/deploy/release/signing"
)

// cosign runs the real one.
func cosign(t *testing.T, words ...string) (string, error) {
	t.Helper()
	program := os.Getenv("COSIGN")
	if program == "" {
		t.Skip("COSIGN names no cosign: make test-release does")
	}
	cmd := exec.CommandContext(t.Context(), program, words...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	return string(out) + complaint.String(), err
}

func TestCosignVerifiesImagesAndWhatIsSaidOfThem(t *testing.T) {
	publish(t, before)
	another, err := signing.Make(time.Now())
	require.NoError(t, err)
	public, err := another.PublicPEM()
	require.NoError(t, err)
	stranger := filepath.Join(t.TempDir(), "stranger.pem")
	require.NoError(t, os.WriteFile(stranger, public, 0o644))
	for _, program := range programs {
		image := filepath.Join(site, before, "images", program)
		verify := func(key, command string, words ...string) (string, error) {
			return cosign(t, append([]string{command, "--key", key, "--local-image", "--insecure-ignore-tlog=true", image}, words...)...)
		}
		key := filepath.Join(site, publicKeyPEM)
		out, err := verify(key, "verify")
		require.NoError(t, err, out)
		for _, kind := range []string{"slsaprovenance1", "cyclonedx"} {
			out, err := verify(key, "verify-attestation", "--type", kind)
			require.NoError(t, err, out)
		}
		out, err = verify(stranger, "verify")
		require.Error(t, err, out)
	}
}

func TestSumsAndProvenanceHaveAllFiles(t *testing.T) {
	publish(t, before)
	sums, err := os.ReadFile(filepath.Join(site, before, "SHA256SUMS"))
	require.NoError(t, err)
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	check.Dir = filepath.Join(site, before)
	out, err := check.CombinedOutput()
	require.NoError(t, err, "%s", out)

	out2, err := cosign(t, "verify-blob-attestation", "--key", filepath.Join(site, publicKeyPEM), "--insecure-ignore-tlog=true", "--type", "slsaprovenance1",
		"--signature", filepath.Join(site, before, "provenance.intoto.jsonl"), "--new-bundle-format=false",
		filepath.Join(site, before, "sbom", "mcp-server_"+runtime.GOARCH+".cdx.json"))
	require.NoError(t, err, out2)

	envelope, err := os.ReadFile(filepath.Join(site, before, "provenance.intoto.jsonl"))
	require.NoError(t, err)
	var signed struct{ Payload []byte }
	require.NoError(t, json.Unmarshal(envelope, &signed))
	var statement struct {
		attest.Statement
		Predicate attest.Predicate `json:"predicate"`
	}
	require.NoError(t, json.Unmarshal(signed.Payload, &statement))
	for _, subject := range statement.Subject {
		require.Contains(t, string(sums), subject.Digest["sha256"]+"  "+subject.Name+"\n")
	}
	require.Equal(t, strings.Count(string(sums), "\n"), len(statement.Subject)+1, "all files but the provenance itself")
	require.Contains(t, statement.Predicate.BuildDefinition.ResolvedDependencies[0].URI, "git+https://github.com/pgmesh/pgmesh@")
}

func TestComponentsAreThoseOfTheProgram(t *testing.T) {
	publish(t, before)
	file, err := os.Open(filepath.Join(site, before, "sbom", "mcp-server_"+runtime.GOARCH+".cdx.json"))
	require.NoError(t, err)
	defer file.Close()
	var list cyclonedx.BOM
	require.NoError(t, cyclonedx.NewBOMDecoder(file, cyclonedx.BOMFileFormatJSON).Decode(&list))
	require.Equal(t, before, list.Metadata.Component.Version)
	names := map[string]bool{}
	for _, c := range *list.Components {
		names[c.Name] = true
	}
	for _, part := range []string{"stdlib", "github.com/jackc/pgx/v5", "google.golang.org/grpc"} {
		require.True(t, names[part], "%s is not among %d components", part, len(names))
	}
	require.False(t, names["github.com/stretchr/testify"], "what is for tests is in no program")
}
