package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// plugins is the folder of the provider, and of the settings that have OpenTofu take it from there.
var plugins string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Getenv("TOFU") == "" {
		return pgtest.Main(m)
	}
	var err error
	if plugins, err = os.MkdirTemp("", "pgmesh-terraform-"); err == nil {
		defer os.RemoveAll(plugins)
		build := exec.Command("go", "build", "-o", filepath.Join(plugins, "terraform-provider-pgmesh"), ".")
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		err = build.Run()
	}
	if err == nil {
		settings := fmt.Sprintf("provider_installation {\n dev_overrides { \"pgmesh/pgmesh\" = %q }\n direct {}\n}\n", plugins)
		err = os.WriteFile(filepath.Join(plugins, "tofurc"), []byte(settings), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the provider:", err)
		return 1
	}
	return pgtest.Main(m)
}

// project is a folder with a configuration, whose mesh is a server of its own.
type project struct {
	*testing.T

	mesh *clitest.Mesh
	dir  string
	in   string // what OpenTofu reads from standard input
}

// header is what each configuration begins with.
const header = `
terraform {
  required_providers {
    pgmesh = { source = "pgmesh/pgmesh" }
  }
}
provider "pgmesh" {}
`

func start(t *testing.T, config string) *project {
	t.Helper()
	if os.Getenv("TOFU") == "" {
		t.Skip("no TOFU: `make terraform` builds an OpenTofu, which takes minutes the first time, and runs these tests")
	}
	p := &project{T: t, mesh: clitest.Start(t), dir: t.TempDir()}
	p.write(header + config)
	return p
}

func (p *project) write(config string) {
	p.Helper()
	require.NoError(p, os.WriteFile(filepath.Join(p.dir, "main.tf"), []byte(config), 0o600))
}

// tofu runs OpenTofu, which must succeed, and returns what it prints.
func (p *project) tofu(args ...string) string {
	p.Helper()
	out, err := p.try(args...)
	require.NoError(p, err, out)
	return out
}

// fails runs OpenTofu, which must not, and returns what it prints, without its frames and breaks.
func (p *project) fails(args ...string) string {
	p.Helper()
	out, err := p.try(args...)
	require.Error(p, err, out)
	return unframed(out)
}

func unframed(out string) string {
	return strings.Join(strings.Fields(regexp.MustCompile(`[╷│╵]`).ReplaceAllString(out, " ")), " ")
}

func (p *project) try(args ...string) (string, error) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Getenv("TOFU"), append(args, "-no-color")...)
	cmd.Dir, cmd.WaitDelay, cmd.Stdin = p.dir, time.Second, strings.NewReader(p.in)
	cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+filepath.Join(plugins, "tofurc"), "TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1",
		"PGMESH_SERVER="+p.mesh.Address, "PGMESH_INSECURE=true", "PGMESH_CONFIG="+filepath.Join(p.dir, "none.yaml"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// evaluated returns the value of an expression, also if it is secret.
func (p *project) evaluated(expression string) string {
	p.Helper()
	p.in = "nonsensitive(" + expression + ")\n"
	defer func() { p.in = "" }()
	return p.tofu("console")
}

func (p *project) apply(args ...string) string {
	p.Helper()
	return p.tofu(append([]string{"apply", "-auto-approve", "-input=false"}, args...)...)
}

// rests asserts that there is nothing to change.
func (p *project) rests() {
	p.Helper()
	out, err := p.try("plan", "-detailed-exitcode", "-input=false")
	require.NoError(p, err, out)
}

// spec returns the spec of a resource as the mesh has it.
func (p *project) spec(kind, namespace, name string) string {
	p.Helper()
	var read struct{ Spec json.RawMessage }
	require.NoError(p, json.Unmarshal([]byte(p.mesh.OK("get", kind, name, "-n", namespace, "-o", "json")), &read))
	return string(read.Spec)
}

// page returns the examples of docs/terraform.md.
func page(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/terraform.md")
	require.NoError(t, err)
	var all []string
	for _, block := range regexp.MustCompile("(?ms)^```hcl\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		all = append(all, block[1])
	}
	return all
}
