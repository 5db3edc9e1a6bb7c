package bugreport

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/mesh-agent/envoyadmin"
)

// Envoy are what its admin API tells.
func Envoy(envoy *envoyadmin.Admin) (all []Source) {
	for _, each := range []struct{ name, path string }{
		{"server_info.json", "/server_info"},
		{"config_dump.json", "/config_dump?include_eds"},
		{"clusters.json", "/clusters?format=json"},
		{"listeners.json", "/listeners?format=json"},
		{"certs.json", "/certs"},
		{"init_dump.json", "/init_dump"},
		{"memory.json", "/memory"},
		{"runtime.json", "/runtime"},
		{"stats.txt", "/stats?usedonly"},
		{"ready.txt", "/ready"},
	} {
		all = append(all, Source{"envoy/" + each.name, func(ctx context.Context) ([]byte, error) {
			text, err := envoy.Text(ctx, each.path)
			if refused, is := errors.AsType[*envoyadmin.RefusedError](err); is {
				return []byte(refused.Said), nil // that it is not ready is something to know
			}
			return []byte(text), err
		}})
	}
	return append(all, Source{"envoy/logging.txt", func(ctx context.Context) ([]byte, error) {
		text, err := envoy.Post(ctx, "/logging")
		return []byte(text), err
	}})
}

// Machine is what there is to know of the machine. Programs that are not there are left out.
func Machine() (all []Source) {
	for _, path := range []string{
		"/etc/os-release", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/hosts", "/proc/version", "/proc/meminfo", "/proc/loadavg", "/proc/uptime",
		"/proc/self/limits", "/proc/self/cgroup", "/proc/sys/fs/file-nr", "/proc/sys/net/ipv4/ip_local_port_range", "/proc/net/sockstat", "/proc/net/sockstat6",
	} {
		all = append(all, File("machine"+path, path))
	}
	for _, each := range []struct {
		name    string
		command []string
	}{
		{"ip-address", []string{"ip", "address"}},
		{"ip-route", []string{"ip", "route", "show", "table", "all"}},
		{"ip-rule", []string{"ip", "rule"}},
		{"listening", []string{"ss", "-tulnp"}},
		{"sockets", []string{"ss", "-s"}},
		{"nft", []string{"nft", "list", "ruleset"}},
		{"iptables", []string{"iptables-save"}},
		{"ip6tables", []string{"ip6tables-save"}},
		{"resolvectl", []string{"resolvectl", "status"}},
		{"time", []string{"timedatectl", "show"}},
		{"processes", []string{"ps", "-eo", "pid,ppid,user,rss,etimes,comm"}}, // without arguments: tokens are in them
		{"disks", []string{"df", "-h"}},
		{"systemd-unit", []string{"systemctl", "status", "--no-pager", "--lines=0", "mesh-agent"}},
		{"kernel-last-word", []string{"dmesg", "--ctime", "--level=emerg,alert,crit,err"}},
	} {
		if path, err := exec.LookPath(each.command[0]); err == nil {
			all = append(all, run("machine/"+each.name+".txt", path, each.command[1:]...))
		}
	}
	if path, err := exec.LookPath("journalctl"); err == nil {
		journal := run("machine/systemd-journal.txt", path, "--no-pager", "-u", "mesh-agent", "-n", "5000")
		all = append(all, Source{journal.Name, func(ctx context.Context) ([]byte, error) {
			text, err := journal.Read(ctx)
			return WithoutAccessLog(text), err
		}})
	}
	return all
}

// ourLine is one of the agent, of Envoy's own log, or of systemd about them. What else is in the journal of the unit is an access log.
var ourLine = regexp.MustCompile(`: (?:time=\S+ level=|\{"time":"[^"]*","level":|\[[^\]]*\]\[\d+\]\[\w+\]\[\w+\])| systemd\[\d+\]: |^-- `)

// WithoutAccessLog is the journal of the agent without what its Envoy says of requests.
func WithoutAccessLog(journal []byte) []byte {
	var kept bytes.Buffer
	for line := range bytes.Lines(journal) {
		if ourLine.Match(line) {
			kept.Write(line)
		}
	}
	return kept.Bytes()
}

// StateDir tells what is in the state folder, but not the contents, which are secret.
func StateDir(folder string) Source {
	return Source{"state.txt", func(context.Context) ([]byte, error) {
		var list bytes.Buffer
		err := filesOf(folder, func(_ *os.Root, path string, info fs.FileInfo) {
			fmt.Fprintf(&list, "%s %10d %s %s\n", info.Mode(), info.Size(), info.ModTime().UTC().Format(time.RFC3339), path)
		})
		return list.Bytes(), err
	}}
}

// filesOf goes through what is in a folder, and does not leave it by links, whoever makes some meanwhile.
func filesOf(folder string, each func(root *os.Root, path string, info fs.FileInfo)) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir
		}
		if info, err := entry.Info(); err == nil { // or it has just gone
			each(root, path, info)
		}
		return nil
	})
}

// File is a file, which need not be there.
func File(name, path string) Source {
	return Source{name, func(context.Context) ([]byte, error) {
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return content, err
	}}
}

// run is what a program says, whether it fails or not.
func run(name, program string, args ...string) Source {
	return Source{name, func(ctx context.Context) ([]byte, error) {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.WaitDelay = time.Second
		output, err := cmd.CombinedOutput()
		if err != nil {
			output = append(output, fmt.Sprintf("\n(%v)\n", err)...)
		}
		return output, nil
	}}
}

// smallFile is larger than any file of the state folder with a secret in it.
const smallFile = 1 << 20

// knowFiles makes known what may be nowhere: the private keys in the state folder, and what is in files that hold secrets.
func (a *archive) knowFiles(o Options) {
	_ = filesOf(o.StateDir, func(root *os.Root, path string, info fs.FileInfo) {
		if !info.Mode().IsRegular() || info.Size() > smallFile {
			return
		}
		content, _ := root.ReadFile(path) // what cannot be read is not in the report either
		a.knowKeys(content)
	})
	for _, path := range o.Files {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // what cannot be read is not in the report either
		}
		if bytes.Contains(content, []byte("-----BEGIN ")) {
			a.knowKeys(content)
			continue
		}
		a.redact.Know(string(content))
	}
}

// knowKeys makes the private keys in PEM known, and not the certificates beside them.
func (a *archive) knowKeys(content []byte) {
	for {
		var block *pem.Block
		if block, content = pem.Decode(content); block == nil {
			return
		}
		if strings.HasSuffix(block.Type, "PRIVATE KEY") {
			a.redact.Know(string(pem.EncodeToMemory(block)))
		}
	}
}
