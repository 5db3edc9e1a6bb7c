package promtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// binary returns the path of a program that `make prometheus` put into .tools at the module's root.
func binary(t testing.TB, name string) string {
	t.Helper()
	module, err := exec.CommandContext(t.Context(), "go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatalf("find the module's root: %v", err)
	}
	path := filepath.Join(filepath.Dir(strings.TrimSpace(string(module))), ".tools", "bin", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("there is no %s at %s: run `make prometheus`", name, path)
	}
	return path
}

// Promtool runs promtool in a folder, with this standard input. It returns what promtool says, and
// an error if it finds something wrong.
func Promtool(t testing.TB, folder, input string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary(t, "promtool"), args...)
	cmd.Dir, cmd.Stdin = folder, strings.NewReader(input)
	output, err := cmd.CombinedOutput()
	return string(output), err
}
