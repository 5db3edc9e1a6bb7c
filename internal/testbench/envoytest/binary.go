package envoytest

import (
	"os"
	"path/filepath"
	"testing"
)

// Binary returns the path of the Envoy that tests run: $ENVOY, or the one that `make tools` put
// into .tools at the module's root.
func Binary(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("ENVOY"); path != "" {
		return path
	}
	path := filepath.Join(moduleRoot(t), ".tools", "envoy", "envoy")
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("there is no Envoy at %s: run `make tools`, or set ENVOY=/path/to/envoy", path)
	}
	return path
}

func moduleRoot(t testing.TB) string {
	t.Helper()
	folder, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(folder, "go.mod")); missing == nil {
			return folder
		}
		if parent := filepath.Dir(folder); parent != folder {
			folder = parent
			continue
		}
		break
	}
	t.Fatalf("no go.mod above the working folder (%v): run tests inside the module", err)
	return ""
}
