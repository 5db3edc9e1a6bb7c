package serve_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/dial"
	"github.com/pgmesh/pgmesh/internal/pgtest"
	"github.com/pgmesh/pgmesh/internal/tlsfiles"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
)

var shell = regexp.MustCompile("(?ms)^```bash\n(.*?)^```$")

// What docs/security.md has people paste makes certificates that server and client take.
func TestCertificatesThatTheDocsMake(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("there is no openssl here")
	}
	page, err := os.ReadFile("../../docs/security.md")
	require.NoError(t, err)
	script := shell.FindSubmatch(page)
	require.NotNil(t, script)
	dir := t.TempDir()
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", string(script[1]))
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))

	at := func(name string) string { return filepath.Join(dir, name) }
	database := pgtest.New(t)
	r := launch(t, serve.Options{Database: database, Security: serve.Security{
		TLS:   tlsfiles.Server{Cert: at("mcp-server.pem"), Key: at("mcp-server.key"), ClientCA: at("authority.pem")},
		Allow: []string{"spiffe://mesh.example/discovery/*"},
	}})
	write(t, database, "a", "a.example")
	for _, server := range []string{"", "spiffe://mesh.example/mcp-server"} {
		how := dial.Options{TLS: tlsfiles.Client{CA: at("authority.pem"), Cert: at("discovery.pem"), Key: at("discovery.key"), ServerID: server}}
		c, err := how.To(nil, r.MCP.String())
		require.NoError(t, err)
		require.Equal(t, []string{"a"}, connectBy(t, r.MCP.String(), nil, c.DialOptions()).until(1))
	}
}
