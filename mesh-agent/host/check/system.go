package check

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// System is the machine to examine. Root is the folder with its proc and dev, "/".
type System struct {
	Root     string
	StateDir string
	Envoy    string
	// Files is how many files a process of this account may have open.
	Files uint64
	// Free returns how many bytes a folder has room for.
	Free func(folder string) (uint64, error)

	ResolvConf  string
	Nameservers []netip.Addr

	Redirected, Transparent bool
}

func (s System) read(path string) string {
	text, _ := os.ReadFile(filepath.Join(s.Root, path)) // a missing file is empty
	return strings.TrimSpace(string(text))
}

// State checks that the agent can write its state folder, and that nobody else can read the key in
// it.
func (s System) State(context.Context) []Finding {
	const part = "state"
	info, err := os.Stat(s.StateDir)
	switch {
	case os.IsNotExist(err):
		return []Finding{warn(part, "mesh-agent join makes it; or: install -d -m 0700 -o mesh-agent "+s.StateDir, "there is no folder %s yet", s.StateDir)}
	case err != nil:
		return []Finding{fail(part, "do this as root or as the user of the agent, or choose another folder with --state-dir", "%v", err)}
	case !info.IsDir():
		return []Finding{fail(part, "choose another folder with --state-dir", "%s is no folder", s.StateDir)}
	case info.Mode().Perm()&0o077 != 0:
		return []Finding{fail(part, "chmod 0700 "+s.StateDir, "others on this machine may enter %s (%s), which has the machine's key", s.StateDir, info.Mode().Perm())}
	}
	file, err := os.CreateTemp(s.StateDir, ".check-")
	if err != nil {
		return []Finding{fail(part, "do this as root or as the user of the agent, or give it the folder: chown -R mesh-agent "+s.StateDir, "%s cannot be written to: %v", s.StateDir, err)}
	}
	file.Close()
	os.Remove(file.Name())
	free, err := s.Free(s.StateDir)
	switch {
	case err != nil:
		return []Finding{warn(part, "", "how much room %s has cannot be told: %v", s.StateDir, err)}
	case free < 16<<20:
		return []Finding{fail(part, "make room on its disk", "%s has room for %d MB: the machine's certificate and Envoy's last configuration are kept there", s.StateDir, free>>20)}
	case free < 256<<20:
		return []Finding{warn(part, "make room on its disk", "%s has room for %d MB", s.StateDir, free>>20)}
	}
	return []Finding{ok(part, "%s is this account's alone, and has room for %d MB", s.StateDir, free>>20)}
}

// Kernel checks that the kernel has what Envoy needs.
func (s System) Kernel(context.Context) []Finding {
	const part = "kernel"
	release := s.read("proc/sys/kernel/osrelease")
	major, minor := 0, 0
	_, _ = fmt.Sscanf(release, "%d.%d", &major, &minor) // an unreadable version counts as too old
	var all []Finding
	switch {
	case release == "":
		return []Finding{fail(part, "run the agent on Linux", "this is not Linux")}
	case major < 4:
		all = append(all, fail(part, "upgrade the kernel to 4.18 or later", "Linux %s is older than Envoy knows how to live with", release))
	case s.Redirected && (major < 5 || major == 5 && minor < 2):
		all = append(all, warn(part, "upgrade the kernel to 5.2 or later, or choose --redirect-by iptables", "nft of Linux %s cannot redirect IPv4 and IPv6 in one table", release))
	default:
		all = append(all, ok(part, "Linux %s", release))
	}
	shm := filepath.Join(s.Root, "dev/shm")
	file, err := os.CreateTemp(shm, "mesh-agent-check-")
	if err != nil {
		return append(all, fail("shared memory", "mount -t tmpfs -o mode=1777 tmpfs /dev/shm (a container: --shm-size 64m), or use --tie-envoy, which does without",
			"Envoy's hot restart needs to write to /dev/shm: %v", err))
	}
	file.Close()
	os.Remove(file.Name())
	return append(all, ok("shared memory", "/dev/shm is there for hot restarts"))
}

// The least that lets a proxy work, and enough for it to work under load.
const (
	minFiles    = 1024
	enoughFiles = 65536
)

// Limits checks the limits of a process.
func (s System) Limits(context.Context) []Finding {
	var all []Finding
	const more = "LimitNOFILE=1048576 in the unit, or ulimit -n 1048576"
	switch {
	case s.Files < minFiles:
		all = append(all, fail("open files", more, "a process may have %d files open; each request through Envoy takes two", s.Files))
	case s.Files < enoughFiles:
		all = append(all, warn("open files", more, "a process may have %d files open; each request through Envoy takes two", s.Files))
	default:
		all = append(all, ok("open files", "%d", s.Files))
	}
	for name, least := range map[string]int{"max_user_instances": 64, "max_user_watches": 1024} {
		setting := "fs.inotify." + name
		if n, err := strconv.Atoi(s.read("proc/sys/fs/inotify/" + name)); err == nil && n < least {
			all = append(all, warn("inotify", fmt.Sprintf("sysctl -w %s=%d", setting, least*2), "%s is %d: changed files may go unnoticed", setting, n))
		}
	}
	return all
}

// Memory checks that there is room for Envoy.
func (s System) Memory(context.Context) []Finding {
	found := available.FindStringSubmatch(s.read("proc/meminfo"))
	if found == nil {
		return []Finding{warn("memory", "", "how much memory is free cannot be told")}
	}
	kilobytes, _ := strconv.Atoi(found[1])
	switch mb := kilobytes >> 10; {
	case mb < 64:
		return []Finding{fail("memory", "free some: an Envoy takes 50 MB and more, by the size of the mesh", "%d MB are available", mb)}
	case mb < 256:
		return []Finding{warn("memory", "an Envoy takes 50 MB and more, by the size of the mesh", "%d MB are available", mb)}
	default:
		return []Finding{ok("memory", "%d MB are available", mb)}
	}
}

var available = regexp.MustCompile(`(?m)^MemAvailable:\s+(\d+) kB$`)

// agentPorts is the range of the default ports of the agent and Envoy.
var agentPorts = [2]int{15000, 15463}

// Network checks the kernel's network settings.
func (s System) Network(context.Context) []Finding {
	var all []Finding
	first, last := 0, 0
	if n, _ := fmt.Sscanf(s.read("proc/sys/net/ipv4/ip_local_port_range"), "%d %d", &first, &last); n == 2 {
		reserved := s.read("proc/sys/net/ipv4/ip_local_reserved_ports")
		switch {
		case first <= agentPorts[1] && last >= agentPorts[0] && reserved == "":
			all = append(all, warn("local ports", "sysctl -w net.ipv4.ip_local_reserved_ports=15000-15463",
				"connections may be given the ports %d to %d, and so take Envoy's or the agent's", first, last))
		case last-first < 10000:
			all = append(all, warn("local ports", "sysctl -w net.ipv4.ip_local_port_range='32768 60999'",
				"there are %d ports for connections: Envoy may run out of them", last-first+1))
		default:
			all = append(all, ok("local ports", "%d to %d are for connections", first, last))
		}
	}
	if s.Transparent {
		for _, device := range []string{"all", "lo"} {
			if s.read("proc/sys/net/ipv4/conf/"+device+"/rp_filter") == "1" {
				all = append(all, warn("rp_filter", "sysctl -w net.ipv4.conf."+device+".rp_filter=2",
					"net.ipv4.conf.%s.rp_filter is strict: connections under their clients' addresses (TPROXY) may be dropped", device))
			}
		}
	}
	return all
}

// Program checks that Envoy can be run.
func (s System) Program(ctx context.Context) []Finding {
	path, err := exec.LookPath(s.Envoy)
	if err != nil {
		return []Finding{fail("envoy", "install Envoy, or say where it is with --envoy", "%v", err)}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").CombinedOutput()
	if err != nil {
		return []Finding{fail("envoy", "install an Envoy for this kind of machine, or name another with --envoy", "%s cannot be run: %v: %s", path, err, strings.TrimSpace(string(out)))}
	}
	found := envoyVersion.FindSubmatch(out)
	if found == nil {
		return []Finding{fail("envoy", "name Envoy with --envoy", "%s says what no Envoy does: %.100s", path, strings.TrimSpace(string(out)))}
	}
	return []Finding{ok("envoy", "%s is Envoy %s", path, found[1])}
}

// envoyVersion matches "envoy version: COMMIT/1.40.0/Clean/RELEASE/BoringSSL".
var envoyVersion = regexp.MustCompile(`version: [0-9a-f]+/(\d+\.\d+\.\d+[^/]*)/`)

// Resolver checks that the machine has a nameserver.
func (s System) Resolver(context.Context) []Finding {
	if len(s.Nameservers) == 0 {
		return []Finding{warn("resolver", "name one: nameserver ADDRESS; or name those of the agent's resolver with --dns-upstream",
			"%s names no nameserver: names outside the mesh cannot be resolved", s.ResolvConf)}
	}
	words := make([]string, len(s.Nameservers))
	for i, a := range s.Nameservers {
		words[i] = a.String()
	}
	return []Finding{ok("resolver", "%s names %s", s.ResolvConf, strings.Join(words, ", "))}
}

// Routes checks that connections to the addresses that the mesh allocates reach the rules that
// redirect them. The machine has the address ip, "" if that is not known.
func Routes(ip string) Check {
	return func(context.Context) []Finding {
		conn, err := net.Dial("udp", "240.240.0.1:9") // sends nothing
		if err != nil {
			return []Finding{warn("routes", fmt.Sprintf("ip route add 240.240.0.0/16 dev %s, or a default route", deviceOf(ip)),
				"this machine has no route to 240.240.0.0/16, where services have addresses that are allocated: connections to them fail before they can be redirected")}
		}
		conn.Close()
		return []Finding{ok("routes", "addresses that the mesh allocates are routed")}
	}
}

// deviceOf returns the network interface with an address.
func deviceOf(ip string) string {
	interfaces, _ := net.Interfaces()
	own, _ := netip.ParseAddr(ip)
	for _, i := range interfaces {
		addresses, _ := i.Addrs()
		for _, a := range addresses {
			p, err := netip.ParsePrefix(a.String())
			if err == nil && (p.Addr() == own || !own.IsValid() && p.Addr().IsGlobalUnicast()) {
				return i.Name
			}
		}
	}
	return "eth0"
}

// Trial turns a function into a check: no error means OK.
func Trial(part, well, does string, try func(context.Context) error) Check {
	return func(ctx context.Context) []Finding {
		if err := try(ctx); err != nil {
			return []Finding{fail(part, does, "%v", err)}
		}
		return []Finding{ok(part, "%s", well)}
	}
}
