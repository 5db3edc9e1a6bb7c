package files_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/source/files"
	"github.com/pgmesh/pgmesh/discovery/source/sourcetest"
)

func TestDirectoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	sourcetest.Contract(t, func(t *testing.T) sourcetest.Subject {
		t.Helper()
		folder := t.TempDir()
		return sourcetest.Subject{
			Source: files.New(folder, slog.New(slog.DiscardHandler), prometheus.NewRegistry()),
			Put: func(names ...string) {
				var text strings.Builder
				for _, name := range names {
					text.WriteString(service(name))
				}
				written := filepath.Join(t.TempDir(), "mesh.yaml")
				write(t, written, text.String())
				require.NoError(t, os.Rename(written, filepath.Join(folder, "mesh.yaml")), "files change at once")
			},
		}
	})
}
