package node

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/process"
)

// resolve writes the resolver's file of a Pod, as a kubelet does.
func (r *running) resolve(namespace string, resolver netip.Addr) error {
	text := fmt.Sprintf("nameserver %s\nsearch %s.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n", resolver, namespace)
	return os.WriteFile(r.resolvers(), []byte(text), 0o644)
}

func (r *running) resolvers() string { return filepath.Join(r.folder, "resolv.conf") }

// command is one that runs on the Pod's machine, which has the Pod's name and resolvers.
func (r *running) command(command ...string) *exec.Cmd {
	script := `hostname "$1" && mount --bind "$2" /etc/resolv.conf && shift 2 && exec "$@"`
	set := []string{"unshare", "--uts", "sh", "-c", script, "sh", filepath.Base(r.folder), r.resolvers()}
	return r.machine.Command(context.Background(), append(set, command...)...)
}

// startsWithin is how long a program may take until it listens.
const startsWithin = 30 * time.Second

// listens waits until a program, or another on its machine, listens.
func listens(p *process.Process) error {
	deadline := time.NewTimer(startsWithin)
	defer deadline.Stop()
	for tick := time.NewTicker(10 * time.Millisecond); ; { // the kernel tells of sockets only who asks
		if hasSocket(p.Pid()) {
			tick.Stop()
			return nil
		}
		select {
		case <-tick.C:
		case <-p.Done():
			return fmt.Errorf("the program ended: %w", p.Err())
		case <-deadline.C:
			return fmt.Errorf("the program does not listen after %s", startsWithin)
		}
	}
}

// hasSocket reports whether somebody listens on the machine of a process: on TCP, or on UDP.
func hasSocket(pid int) bool {
	const listening = " 0A "
	for _, of := range []string{"tcp", "tcp6"} {
		if table, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, of)); err == nil && bytes.Contains(table, []byte(listening)) {
			return true
		}
	}
	for _, of := range []string{"udp", "udp6"} {
		if table, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, of)); err == nil && bytes.Count(table, []byte("\n")) > 1 {
			return true
		}
	}
	return false
}
