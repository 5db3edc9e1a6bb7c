package machine

import (
	"bytes"
	"context"
	_ "embed" // the script that makes a machine
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgmesh/pgmesh/internal/kit/process"
	"github.com/pgmesh/pgmesh/internal/testbench/netns"
)

//go:embed boot
var boot string

// timeout bounds the start of a machine and the end of its processes; commands get twice as long.
const timeout = time.Minute

// Machine is a running machine.
type Machine struct {
	*netns.Namespace

	t     testing.TB
	first int // the pid of its first process on the host
}

// Boot starts a machine in a network. It stops with the test. Boot skips the test if the host does
// not allow this.
func Boot(t testing.TB, network *netns.Namespace, name string) *Machine {
	t.Helper()
	return BootFrom(t, network, name, "/")
}

// BootFrom starts a machine whose files are those below root at first, instead of the host's. They
// stay as they are. A systemd has to be among them.
func BootFrom(t testing.TB, network *netns.Namespace, name, root string) *Machine {
	t.Helper()
	groups := controlGroups(t)
	folder := t.TempDir()
	for _, sub := range []string{"changed", "work", "root", "host"} {
		if err := os.Mkdir(filepath.Join(folder, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "boot"), []byte(boot), 0o700); err != nil {
		t.Fatal(err)
	}
	started := listen(t, filepath.Join(folder, "host", "notify"))
	group := filepath.Join(groups, network.Name)
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("this machine has no control groups to give away: %v", err)
	}
	t.Cleanup(func() { removeGroup(t, group) })
	via := append(network.Via(), "unshare", "--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc", "--cgroup", "sh", filepath.Join(folder, "boot"), folder, name, root)
	cmd := exec.Command("sh", append([]string{"-c", `echo $$ > "$0"/cgroup.procs && exec "$@"`, group}, via...)...)
	var complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &complaints, &complaints
	p, err := process.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	if err := waitReady(started, p); err != nil {
		t.Skipf("this machine starts no other: %v: %s", err, &complaints)
	}
	m := &Machine{Namespace: network, t: t, first: firstProcess(t, p.Pid())}
	t.Cleanup(func() {
		if t.Failed() {
			journal, _ := m.Try("journalctl --no-pager --lines 100 --output short-precise")
			t.Logf("the journal of %s:\n%s", name, journal)
		}
	})
	return m
}

// controlGroups returns the mount point of cgroup v2.
func controlGroups(t testing.TB) string {
	t.Helper()
	for _, need := range []string{"/lib/systemd/systemd", "/usr/bin/unshare", "/usr/bin/nsenter"} {
		if _, err := os.Stat(need); err != nil {
			t.Skipf("this machine cannot start another: %v", err)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			return f[1]
		}
	}
	t.Skip("this machine cannot start another: it has no control groups of the second version")
	return ""
}

// listen opens the socket on which systemd reports that it has started.
func listen(t testing.TB, path string) *net.UnixConn {
	t.Helper()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	if err := socket.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		t.Fatal(err)
	}
	return socket
}

func waitReady(started *net.UnixConn, p *process.Process) error {
	go func() {
		<-p.Done()
		started.Close() // ends the Read below
	}()
	datagram := make([]byte, 4096)
	for {
		n, err := started.Read(datagram)
		if err != nil {
			return fmt.Errorf("systemd has not started: %w", err)
		}
		if strings.Contains(string(datagram[:n]), "READY=1") {
			return nil
		}
	}
}

// firstProcess returns the only child of unshare.
func firstProcess(t testing.TB, unshare int) int {
	t.Helper()
	children := process.Children(unshare)
	if len(children) != 1 {
		t.Fatalf("find the first process of a machine: unshare has the children %v", children)
	}
	return children[0]
}

// removeGroup removes a control group and its children once their processes are gone.
func removeGroup(t testing.TB, group string) {
	t.Helper()
	if err := awaitEmpty(filepath.Join(group, "cgroup.events")); err != nil {
		t.Errorf("wait for the end of a machine: %v", err)
	}
	var folders []string
	_ = filepath.WalkDir(group, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			folders = append(folders, path)
		}
		return nil
	})
	for _, folder := range slices.Backward(folders) {
		if err := os.Remove(folder); err != nil {
			t.Errorf("remove a control group: %v", err)
		}
	}
}

// awaitEmpty returns when a control group has no processes. The kernel signals a change of
// cgroup.events with POLLPRI.
func awaitEmpty(events string) error {
	file, err := os.Open(events)
	if err != nil {
		return err
	}
	defer file.Close()
	for deadline := time.Now().Add(timeout); ; {
		content := make([]byte, 4096)
		n, err := file.ReadAt(content, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		left := time.Until(deadline)
		switch {
		case strings.Contains(string(content[:n]), "populated 0"):
			return nil
		case left <= 0:
			return errors.New("its processes do not end")
		}
		_, err = unix.Poll([]unix.PollFd{{Fd: int32(file.Fd()), Events: unix.POLLPRI}}, int(left.Milliseconds())+1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Path returns the host's path of a file of the machine.
func (m *Machine) Path(file string) string { return fmt.Sprintf("/proc/%d/root%s", m.first, file) }

// Write writes a file on the machine.
func (m *Machine) Write(file string, content []byte, mode os.FileMode) {
	m.t.Helper()
	if err := os.WriteFile(m.Path(file), content, mode); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Chmod(m.Path(file), mode); err != nil {
		m.t.Fatal(err)
	}
}

// Bring copies a program from the host to the machine.
func (m *Machine) Bring(program, to string) {
	m.t.Helper()
	content, err := os.ReadFile(program)
	if err != nil {
		m.t.Fatal(err)
	}
	m.Write(to, content, 0o755)
}

// Command returns a command that runs on the machine as root.
func (m *Machine) Command(ctx context.Context, command ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"--all", "--root", "--wd", "--target", strconv.Itoa(m.first), "--"}, command...)...)
	cmd.Env = []string{"HOME=/root", "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	return cmd
}

// Try runs a shell script on the machine, in /root, and returns its output. The script stops at the
// first command that fails.
func (m *Machine) Try(script string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.t.Context()), 2*timeout)
	defer cancel()
	out, err := m.Command(ctx, "bash", "-euo", "pipefail", "-c", "cd; "+script).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w\n%s", script, err, out)
	}
	return string(out), nil
}

// Type is Try for a script that must succeed.
func (m *Machine) Type(script string) string {
	m.t.Helper()
	out, err := m.Try(script)
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}
