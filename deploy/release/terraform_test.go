package main

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// configuration uses the provider of a version.
const configuration = `
terraform {
  required_providers {
    pgmesh = {
      source  = "pgmesh/pgmesh"
      version = %q
    }
  }
}
resource "pgmesh_gateway_class" "edge" {
  name = "edge"
  spec { controller_name = "pgmesh.io/controller" }
}
`

// OpenTofu installs the provider from the site of a release, over https, checks it, and finds the next
// version there.
func TestOpenTofuInstallsTheProvider(t *testing.T) {
	publish(t, before)
	publish(t, after)
	tofu := os.Getenv("TOFU")
	if tofu == "" {
		t.Skip("TOFU names no OpenTofu: make test-release does")
	}
	server := httptest.NewTLSServer(http.FileServer(http.Dir(site)))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	write("tofurc", fmt.Sprintf("provider_installation {\n network_mirror { url = \"%s/terraform/\" }\n}\n", server.URL))
	run := func(words ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), tofu, append(words, "-no-color")...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+filepath.Join(dir, "tofurc"), "SSL_CERT_FILE="+filepath.Join(dir, "ca.pem"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	ok := func(words ...string) string {
		out, err := run(words...)
		require.NoError(t, err, out)
		return out
	}
	write("main.tf", fmt.Sprintf(configuration, "1.0.0-rc1"))
	require.Contains(t, ok("init"), "Installed pgmesh/pgmesh v1.0.0-rc1")
	require.Contains(t, ok("validate"), "The configuration is valid")
	write("main.tf", fmt.Sprintf(configuration, "~> 1.0"))
	require.Contains(t, ok("init", "-upgrade"), "Installed pgmesh/pgmesh v1.0.0")
	require.Contains(t, ok("validate"), "The configuration is valid")

	// What is not what was locked is refused.
	lock := filepath.Join(dir, ".terraform.lock.hcl")
	text, err := os.ReadFile(lock)
	require.NoError(t, err)
	require.Contains(t, string(text), "zh:")
	require.Contains(t, string(text), "h1:")
	write(filepath.Base(lock), fmt.Sprintf("provider \"registry.opentofu.org/pgmesh/pgmesh\" {\n version = \"1.0.0\"\n hashes = [\"zh:%064d\"]\n}\n", 0))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, ".terraform")))
	out, err := run("init")
	require.Error(t, err, out)
}
