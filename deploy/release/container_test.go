package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/process"
	"github.com/pgmesh/pgmesh/internal/testbench/netns"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// container is an image that was unpacked, in a network.
type container struct {
	t       *testing.T
	root    string
	config  v1.Config
	network *netns.Namespace
	ended   *process.Process
	said    *process.Tail
}

// unpack unpacks the image of a program as an engine does: layer by layer, for this machine.
func unpack(t *testing.T, program string, network *netns.Namespace) *container {
	t.Helper()
	folder, err := layout.FromPath(filepath.Join(site, before, "images", program))
	require.NoError(t, err)
	top, err := folder.ImageIndex()
	require.NoError(t, err)
	listed, err := top.IndexManifest()
	require.NoError(t, err)
	index, err := top.ImageIndex(listed.Manifests[0].Digest)
	require.NoError(t, err)
	of, err := index.IndexManifest()
	require.NoError(t, err)
	for _, manifest := range of.Manifests {
		if manifest.Platform.Architecture != runtime.GOARCH {
			continue
		}
		image, err := index.Image(manifest.Digest)
		require.NoError(t, err)
		described, err := image.ConfigFile()
		require.NoError(t, err)
		c := &container{t: t, root: filepath.Join(t.TempDir(), program), config: described.Config, network: network}
		require.NoError(t, os.MkdirAll(filepath.Join(c.root, "etc"), 0o755))
		require.NoError(t, os.Chmod(filepath.Dir(c.root), 0o755)) // its user enters it
		files := mutate.Extract(image)
		defer files.Close()
		c.tar(files)
		require.NoError(t, os.WriteFile(filepath.Join(c.root, "etc/hosts"), []byte("127.0.0.1 localhost\n"), 0o644))
		return c
	}
	t.Fatalf("%s has no image for %s", program, runtime.GOARCH)
	return nil
}

func (c *container) tar(files io.Reader) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), "tar", "-x", "--numeric-owner", "-C", c.root)
	cmd.Stdin = files
	out, err := cmd.CombinedOutput()
	require.NoError(c.t, err, "%s", out)
}

// contain makes what engines give each container beside its files, and becomes its first process:
// chroot as the user of the image.
const contain = `set -e
root=$1 user=$2; shift 2
mount --make-rprivate /
mount --bind "$root" "$root"
mkdir -p "$root/proc" "$root/dev"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom; do touch "$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"; done
mkdir "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
variables=
while [ "$1" != -- ]; do variables="$variables $1"; shift; done
shift
exec env -i $variables /usr/sbin/chroot --userspec="$user" "$root" "$@"`

func (c *container) command(ctx context.Context, variables []string, words ...string) *exec.Cmd {
	args := append(c.network.Via(), "unshare", "--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc", "sh", "-c", contain, "contain", c.root, c.config.User)
	args = append(append(append(append(args, c.config.Env...), variables...), "--"), words...)
	return exec.CommandContext(ctx, args[0], args[1:]...)
}

// start starts the program of the image with words in place of the usual ones, and waits until the
// image's own health check is content.
func (c *container) start(variables []string, words ...string) {
	c.t.Helper()
	c.said = process.NewTail(40)
	cmd := c.command(context.Background(), variables, append(c.config.Entrypoint, words...)...)
	cmd.Stdout, cmd.Stderr = c.said, c.said
	var err error
	c.ended, err = process.Start(cmd)
	require.NoError(c.t, err)
	c.t.Cleanup(c.stop)
	require.Equal(c.t, "CMD", c.config.Healthcheck.Test[0])
	poll.Eventually(c.t, func(ctx context.Context) error {
		select {
		case <-c.ended.Done():
			c.t.Fatalf("it has ended (%s): %s", c.ended.ExitStatus(), c.said)
		default:
		}
		out, err := c.command(ctx, nil, c.config.Healthcheck.Test[1:]...).CombinedOutput()
		if err != nil {
			err = errors.New(string(out) + c.said.String())
		}
		return err
	})
}

// stop does as engines do: the first process is told to end, and killed if it does not. unshare would
// tell it nothing.
func (c *container) stop() {
	for _, first := range process.Children(c.ended.Pid()) {
		_ = syscall.Kill(first, syscall.SIGTERM)
		select {
		case <-c.ended.Done():
		case <-time.After(20 * time.Second):
			_ = syscall.Kill(first, syscall.SIGKILL)
			<-c.ended.Done()
		}
	}
}

// run runs the program of the image with words in place of the usual ones, and returns what it says.
func (c *container) run(variables []string, words ...string) []byte {
	c.t.Helper()
	var complaint bytes.Buffer
	cmd := c.command(c.t.Context(), variables, append(c.config.Entrypoint[:1:1], words...)...)
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	require.NoError(c.t, err, "%s%s", out, &complaint)
	return out
}

// give puts a file into the container that its user alone reads, as a mounted secret.
func (c *container) give(file string, content []byte) {
	c.t.Helper()
	at := filepath.Join(c.root, file)
	require.NoError(c.t, os.MkdirAll(filepath.Dir(at), 0o755))
	require.NoError(c.t, os.WriteFile(at, content, 0o600))
	require.NoError(c.t, os.Chown(at, 65532, 65532))
}

// A whole mesh of containers: all join it, and speak mutual TLS.
func TestImagesRunAsContainers(t *testing.T) {
	need(t, "unshare", "chroot", "tar")
	publish(t, before)
	network := netns.New(t)
	database, err := url.Parse(pgtest.Empty(t))
	require.NoError(t, err)
	network.Forward("127.0.0.1:5432", database.Host)
	database.Host = "127.0.0.1:5432"

	server := unpack(t, "mcp-server", network)
	server.give("run/secrets.key", server.run(nil, "secrets", "key"))
	variables := []string{"PGMESH_DATABASE=" + database.String(), "PGMESH_SECRETS_KEY_FILE=/run/secrets.key"}
	server.start(variables, "run", "--migrate", "--listen", "127.0.0.1:15020", "--host", "localhost")

	discovery := unpack(t, "discovery", network)
	discovery.give("run/token", server.run(variables, "token", "create", "eu-1", "--for", "discovery"))
	discovery.start([]string{"PGMESH_JOIN_TOKEN_FILE=/run/token"}, "run", "--mcp", "localhost:15020", "--host", "localhost")

	client := unpack(t, "mcp-client", network)
	client.give("run/mesh.pem", server.run(variables, "authority", "roots"))
	client.give("run/token", server.run(variables, "token", "create", "admin", "--scope", "admin"))
	mesh := []string{"PGMESH_SERVER=localhost:15020", "PGMESH_TLS_CA=/run/mesh.pem", "PGMESH_TOKEN_FILE=/run/token"}
	require.Contains(t, string(client.run(mesh, "version")), before)

	agent := unpack(t, "mesh-agent", network)
	agent.give("run/token", client.run(mesh, "token", "create", "--identity", "payments/api"))
	agent.start([]string{"PGMESH_TOKEN_FILE=/run/token"}, "run", "--discovery", "localhost:15012", "--drain-time", "0s")
	require.Contains(t, string(client.run(mesh, "identity", "list")), "spiffe://cluster.local/ns/payments/sa/api")

	for _, c := range []*container{server, discovery, agent, client} {
		require.NoFileExists(t, filepath.Join(c.root, "bin/sh"))
		require.Equal(t, "65532:65532", c.config.User)
		require.Equal(t, before, c.config.Labels["org.opencontainers.image.version"])
	}
}
