package yum_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/rpmpack"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/deploy/release/signing"
	"github.com/pgmesh/pgmesh/deploy/release/yum"
)

var at = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// repository has a package in two versions, behind a web server.
type repository struct {
	t      *testing.T
	folder string
	server *httptest.Server
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	if _, err := exec.LookPath("dnf"); err != nil {
		t.Skip("this machine has no dnf: tools/machine-packages installs it")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root installs packages")
	}
	key, err := signing.Make(at)
	require.NoError(t, err)
	r := &repository{t: t, folder: t.TempDir()}
	for _, version := range []string{"1.0.0~rc1", "1.0.0"} {
		r.pack(version, key)
	}
	require.NoError(t, yum.Write(r.folder, key, at))
	public, err := key.Public()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(r.folder, "key.asc"), public, 0o644))
	r.server = httptest.NewServer(http.FileServer(http.Dir(r.folder)))
	t.Cleanup(r.server.Close)
	return r
}

// pack packs a package as nfpm does, by the same library, and signs it.
func (r *repository) pack(version string, key *signing.Key) {
	r.t.Helper()
	rpm, err := rpmpack.NewRPM(rpmpack.RPMMetaData{
		Name: "thing", Summary: "a thing", Description: "A thing\nwith two lines", Version: version, Release: "1", Arch: "noarch", OS: "linux",
		Licence: "Apache-2.0", BuildTime: at, BuildHost: "pgmesh", Compressor: "gzip",
		Provides: rpmpack.Relations{{Name: "things", Version: "2", Sense: rpmpack.SenseEqual}},
	})
	require.NoError(r.t, err)
	rpm.AddFile(rpmpack.RPMFile{Name: "/usr/bin/thing", Mode: 0o100755, Owner: "root", Group: "root", Body: []byte("#!/bin/sh\n")})
	var made bytes.Buffer
	require.NoError(r.t, rpm.Write(&made))
	unsigned := filepath.Join(r.t.TempDir(), "thing.rpm")
	require.NoError(r.t, os.WriteFile(unsigned, made.Bytes(), 0o644))
	require.NoError(r.t, os.MkdirAll(filepath.Join(r.folder, yum.Packages), 0o755))
	require.NoError(r.t, yum.Sign(unsigned, filepath.Join(r.folder, yum.Packages, "thing-"+version+"-1.noarch.rpm"), key))
}

// ask asks a dnf that knows of this repository alone, and keeps what it knows apart from this machine.
func (r *repository) ask(root string, words ...string) (string, error) {
	repos := filepath.Join(root, "repos")
	require.NoError(r.t, os.MkdirAll(repos, 0o755))
	require.NoError(r.t, os.WriteFile(filepath.Join(repos, "pgmesh.repo"), fmt.Appendf(nil,
		"[pgmesh]\nname=pgmesh\nbaseurl=%s\ngpgcheck=1\nrepo_gpgcheck=1\ngpgkey=%s/key.asc\n", r.server.URL, r.server.URL), 0o644))
	cmd := exec.CommandContext(r.t.Context(), "dnf", append([]string{
		"-y", "--refresh", "--installroot=" + root, "--releasever=1", "--setopt=reposdir=" + repos, "--setopt=retries=1", "--setopt=proxy=",
	}, words...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "no_proxy=127.0.0.1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestDnfInstallsUpgradesAndGoesBack(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	root := t.TempDir()
	for _, step := range []struct{ command, version string }{{"install", "1.0.0~rc1"}, {"upgrade", "1.0.0"}, {"downgrade", "1.0.0~rc1"}} {
		out, err := r.ask(root, step.command, "thing-"+step.version)
		require.NoError(t, err, out)
		out, err = r.ask(root, "repoquery", "--installed", "--qf", "%{version}", "thing")
		require.NoError(t, err, out)
		require.True(t, strings.HasSuffix(out, step.version+"\n"), out)
	}
	for _, query := range [][]string{{"--whatprovides", "things = 2"}, {"--whatprovides", "/usr/bin/thing"}, {"--list", "thing"}} {
		out, err := r.ask(root, append([]string{"repoquery"}, query...)...)
		require.NoError(t, err, out)
		require.Contains(t, out, "thing", "%v", query)
	}
}

func TestDnfRefusesWhatWasChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ pattern, says string }{
		"the signed list of lists": {"repodata/repomd.xml", "repomd.xml GPG signature verification error"},
		"the list of packages":     {"repodata/*-primary.xml.gz", "checksum"},
		"a package":                {"packages/*.rpm", "checksum"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepository(t)
			files, err := filepath.Glob(filepath.Join(r.folder, c.pattern))
			require.NoError(t, err)
			require.NotEmpty(t, files)
			for _, file := range files {
				content, err := os.ReadFile(file)
				require.NoError(t, err)
				content[len(content)-20] ^= 1
				require.NoError(t, os.WriteFile(file, content, 0o644))
			}
			out, err := r.ask(t.TempDir(), "install", "thing")
			require.Error(t, err, out)
			require.Contains(t, out, c.says)
		})
	}
}

// Whoever changed both a package and the lists would still not have the key.
func TestDnfRefusesAPackageThatNobodySigned(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	stranger, err := signing.Make(at)
	require.NoError(t, err)
	r.pack("9.0.0", stranger)
	key, err := signing.Make(at)
	require.NoError(t, err)
	public, err := key.Public()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(r.folder, "key.asc"), public, 0o644))
	require.NoError(t, yum.Write(r.folder, key, at))
	out, err := r.ask(t.TempDir(), "install", "thing-9.0.0")
	require.Error(t, err, out)
	require.Contains(t, out, "GPG")
}
