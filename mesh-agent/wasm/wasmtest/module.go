package wasmtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// placeholder is what the header says in the module as it is built.
const placeholder = "the-value-of-the-header"

var built struct {
	once   sync.Once
	module []byte
	err    error
	output string
}

// Module is a module that Envoy runs, made by the Go compiler: it adds the header "plugin" with a
// value to responses. Each value makes another module.
func Module(t testing.TB, value string) []byte {
	t.Helper()
	built.once.Do(build)
	require.NoError(t, built.err, built.output)
	require.LessOrEqual(t, len(value), len(placeholder))
	require.Equal(t, 1, bytes.Count(built.module, []byte(placeholder)))
	padded := value + strings.Repeat(" ", len(placeholder)-len(value)) // which Envoy trims
	return bytes.Replace(built.module, []byte(placeholder), []byte(padded), 1)
}

func build() {
	folder, err := os.MkdirTemp("", "wasmtest")
	if err != nil {
		built.err = err
		return
	}
	defer os.RemoveAll(folder)
	_, here, _, _ := runtime.Caller(0) //nolint:dogsled // the sources are beside this file
	out := filepath.Join(folder, "module.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-ldflags=-s -w", "-o", out, "./testdata/header")
	cmd.Dir = filepath.Dir(here)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=", "CGO_ENABLED=0")
	text, err := cmd.CombinedOutput()
	if built.output = string(text); err != nil {
		built.err = err
		return
	}
	built.module, built.err = os.ReadFile(out)
}
