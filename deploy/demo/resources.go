package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"text/template"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed mesh.yaml
	meshYAML string

	//go:embed canary.yaml
	canaryYAML string
)

// applyResources applies the service. It applies the canary only if there is none: weights set
// after an earlier start belong to the user.
func applyResources(ctx context.Context, o *options, db *pgx.Conn) error {
	mesh, err := render(meshYAML, map[string]int{"Service": o.ports.service, "V1": o.ports.v1, "V2": o.ports.v2})
	if err != nil {
		return err
	}
	if err := apply(ctx, o, "mesh.yaml", mesh); err != nil {
		return err
	}
	var known bool
	err = db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM mesh.resources WHERE kind = 'VirtualService' AND name = 'hello')`).Scan(&known)
	if err != nil || known {
		return err
	}
	return apply(ctx, o, "canary.yaml", []byte(canaryYAML))
}

// apply writes a file and runs mcp-client apply, like a user would. The file stays, for the user to
// edit.
func apply(ctx context.Context, o *options, name string, content []byte) error {
	file := filepath.Join(o.data, name)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(o.bin, "mcp-client"), clientArgs(o, "apply", "-f", file)...)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, bytes.TrimSpace(output))
	}
	return nil
}

func clientArgs(o *options, args ...string) []string {
	return append([]string{"--insecure", "--server", local(o.ports.mcp)}, args...)
}

func render(text string, values any) ([]byte, error) {
	t, err := template.New("").Parse(text)
	if err != nil {
		return nil, err
	}
	var into bytes.Buffer
	err = t.Execute(&into, values)
	return into.Bytes(), err
}
