package schema

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Programs have the files as people have written them.
func TestFilesAreCompressed(t *testing.T) {
	t.Parallel()
	written, err := ReadFiles(os.DirFS("."))
	require.NoError(t, err)
	require.Equal(t, written, files(), "run go generate ./kinds/schema")
}
