package apt_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/deploy/release/apt"
	"github.com/pgmesh/pgmesh/deploy/release/signing"
)

var at = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// repository has a package in two versions, behind a web server.
type repository struct {
	t      *testing.T
	folder string
	key    *signing.Key
	server *httptest.Server
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	for _, program := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("this machine has no %s", program)
		}
	}
	key, err := signing.Make(at)
	require.NoError(t, err)
	r := &repository{t: t, folder: t.TempDir(), key: key}
	for _, version := range []string{"1.0.0~rc1-1", "1.0.0-1"} {
		r.pack(version)
	}
	require.NoError(t, apt.Write(r.folder, key, at))
	r.server = httptest.NewServer(http.FileServer(http.Dir(r.folder)))
	t.Cleanup(r.server.Close)
	return r
}

func (r *repository) pack(version string) {
	r.t.Helper()
	tree := r.t.TempDir()
	require.NoError(r.t, os.MkdirAll(filepath.Join(tree, "DEBIAN"), 0o755))
	require.NoError(r.t, os.WriteFile(filepath.Join(tree, "DEBIAN", "control"), fmt.Appendf(nil,
		"Package: thing\nVersion: %s\nArchitecture: %s\nMaintainer: nobody <nobody@example.com>\nDescription: a thing\n with two lines\n", version, runtime.GOARCH), 0o644))
	require.NoError(r.t, os.MkdirAll(filepath.Join(r.folder, apt.Pool), 0o755))
	out, err := exec.CommandContext(r.t.Context(), "dpkg-deb", "-Zgzip", "--root-owner-group", "--build", tree,
		filepath.Join(r.folder, apt.Pool, "thing_"+version+"_"+runtime.GOARCH+".deb")).CombinedOutput()
	require.NoError(r.t, err, "%s", out)
}

// later has the lists have been written so much later.
func (r *repository) later(by time.Duration) {
	r.t.Helper()
	then := time.Now().Add(by)
	require.NoError(r.t, filepath.WalkDir(filepath.Join(r.folder, "dists"), func(path string, _ fs.DirEntry, err error) error {
		require.NoError(r.t, err)
		return os.Chtimes(path, then, then)
	}))
}

// machine is where apt keeps what it knows, apart from this machine.
type machine struct{ root string }

func (r *repository) machine() *machine {
	r.t.Helper()
	m := &machine{r.t.TempDir()}
	for _, folder := range []string{"lists/partial", "cache/archives/partial", "etc/parts"} {
		require.NoError(r.t, os.MkdirAll(filepath.Join(m.root, folder), 0o755))
	}
	public, err := r.key.Public()
	require.NoError(r.t, err)
	key := filepath.Join(m.root, "etc/key.asc")
	require.NoError(r.t, os.WriteFile(key, public, 0o644))
	require.NoError(r.t, os.WriteFile(filepath.Join(m.root, "status"), nil, 0o644))
	require.NoError(r.t, os.WriteFile(filepath.Join(m.root, "etc/sources.list"), fmt.Appendf(nil, "deb [signed-by=%s] %s stable main\n", key, r.server.URL), 0o644))
	return m
}

func (r *repository) get(m *machine, words ...string) (string, error) {
	cmd := exec.CommandContext(r.t.Context(), "apt-get", append([]string{
		"-o", "Dir::State=" + m.root, "-o", "Dir::State::lists=" + m.root + "/lists", "-o", "Dir::State::status=" + m.root + "/status",
		"-o", "Dir::Cache=" + m.root + "/cache", "-o", "Dir::Etc::sourcelist=" + m.root + "/etc/sources.list", "-o", "Dir::Etc::sourceparts=" + m.root + "/etc/parts",
		"-o", "APT::Sandbox::User=", "-o", "Acquire::http::Proxy=DIRECT", "-o", "Acquire::Retries=0", "-o", "APT::Architecture=" + runtime.GOARCH, "-o", "Debug::NoLocking=1",
	}, words...)...)
	cmd.Dir = m.root
	cmd.Env = append(os.Environ(), "LC_ALL=C", "http_proxy=", "no_proxy=127.0.0.1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// change changes a word in a file of the repository, as somebody would who has the web server.
func (r *repository) change(pattern, from, to string) {
	r.t.Helper()
	files, err := filepath.Glob(filepath.Join(r.folder, pattern))
	require.NoError(r.t, err)
	require.NotEmpty(r.t, files)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(r.t, err)
		require.NoError(r.t, os.WriteFile(file, bytes.ReplaceAll(content, []byte(from), []byte(to)), 0o644))
	}
}

func TestAptTakesPackagesOfEachVersion(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	m := r.machine()
	out, err := r.get(m, "update", "--error-on=any")
	require.NoError(t, err, out)
	for _, version := range []string{"1.0.0-1", "1.0.0~rc1-1"} {
		out, err = r.get(m, "download", "thing="+version)
		require.NoError(t, err, out)
		require.FileExists(t, filepath.Join(m.root, "thing_"+version+"_"+runtime.GOARCH+".deb"))
	}
	out, err = r.get(m, "install", "--simulate", "thing")
	require.NoError(t, err, out)
	require.Contains(t, out, "Inst thing (1.0.0-1 pgmesh:stable", "the newest is the one to install")

	// A further release, while a reader has the list before.
	r.pack("1.1.0-1")
	require.NoError(t, apt.Write(r.folder, r.key, at.Add(time.Hour)))
	r.later(time.Minute) // apt asks for what is newer by the second, and both were written within one
	out, err = r.get(m, "update", "--error-on=any")
	require.NoError(t, err, out)
	out, err = r.get(m, "install", "--simulate", "thing")
	require.NoError(t, err, out)
	require.Contains(t, out, "Inst thing (1.1.0-1 ")
}

func TestAptRefusesWhatWasChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ pattern, from, to, says string }{
		"the signed list of lists":  {"dists/stable/InRelease", "Suite: stable", "Suite: broken", "BADSIG"},
		"the list of packages":      {"dists/stable/main/binary-*/by-hash/SHA256/*", "", "", "Hash Sum mismatch"},
		"another who signs the lot": {"", "", "", "NO_PUBKEY"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepository(t)
			m := r.machine()
			switch {
			case c.pattern == "":
				stranger, err := signing.Make(at)
				require.NoError(t, err)
				require.NoError(t, apt.Write(r.folder, stranger, at))
			case c.from == "":
				files, err := filepath.Glob(filepath.Join(r.folder, c.pattern))
				require.NoError(t, err)
				for _, file := range files {
					content, err := os.ReadFile(file)
					require.NoError(t, err)
					content[len(content)/2] ^= 1
					require.NoError(t, os.WriteFile(file, content, 0o644))
				}
			default:
				r.change(c.pattern, c.from, c.to)
			}
			out, err := r.get(m, "update", "--error-on=any")
			require.Error(t, err, out)
			require.Contains(t, out, c.says)
		})
	}
}

func TestAptRefusesAPackageThatWasChanged(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	m := r.machine()
	out, err := r.get(m, "update", "--error-on=any")
	require.NoError(t, err, out)
	r.change("pool/*.deb", "debian-binary", "debian-binarx")
	out, err = r.get(m, "download", "thing")
	require.Error(t, err, out)
	require.True(t, strings.Contains(out, "Hash Sum mismatch") || strings.Contains(out, "unexpected size"), out)
}
