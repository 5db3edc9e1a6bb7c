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

	"github.com/pgmesh/pgmesh/mesh-agent/envoy/envoyadmin"
)

// Envoy returns the sources from the admin API.
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
				return []byte(refused.Message), nil // a refusal, such as "not ready", is worth reporting
			}
			return []byte(text), err
		}})
	}
	return append(all, Source{"envoy/logging.txt", func(ctx context.Context) ([]byte, error) {
		text, err := envoy.Post(ctx, "/logging")
		return []byte(text), err
	}})
}

// Machine returns the sources about the machine. Programs that are not installed are left out.
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
		{"processes", []string{"ps", "-eo", "pid,ppid,user,rss,etimes,comm"}}, // without arguments, which may have tokens
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

// agentLine matches lines of the agent, of Envoy's own log, and of systemd about them. All others
// in the unit's journal are access logs.
var agentLine = regexp.MustCompile(`: (?:time=\S+ level=|\{"time":"[^"]*","level":|\[[^\]]*\]\[\d+\]\[\w+\]\[\w+\])| systemd\[\d+\]: |^-- `)

// WithoutAccessLog removes access logs from the agent's journal.
func WithoutAccessLog(journal []byte) []byte {
	var kept bytes.Buffer
	for line := range bytes.Lines(journal) {
		if agentLine.Match(line) {
			kept.Write(line)
		}
	}
	return kept.Bytes()
}

// StateDir lists the state folder without the files' contents, which are secret.
func StateDir(folder string) Source {
	return Source{"state.txt", func(context.Context) ([]byte, error) {
		var list bytes.Buffer
		err := filesOf(folder, func(_ *os.Root, path string, info fs.FileInfo) {
			fmt.Fprintf(&list, "%s %10d %s %s\n", info.Mode(), info.Size(), info.ModTime().UTC().Format(time.RFC3339), path)
		})
		return list.Bytes(), err
	}}
}

// filesOf visits the files in a folder. It cannot be led out by symbolic links, even if some appear
// meanwhile.
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
		if info, err := entry.Info(); err == nil { // otherwise it has just gone
			each(root, path, info)
		}
		return nil
	})
}

// File returns a file, which may be missing.
func File(name, path string) Source {
	return Source{name, func(context.Context) ([]byte, error) {
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return content, err
	}}
}

// run returns a program's output, whether or not it fails.
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

// maxSecretFile is larger than any file with a secret in the state folder.
const maxSecretFile = 1 << 20

// addSecretFiles adds the secrets to redact: private keys in the state folder, and the content of
// files with secrets.
func (a *archive) addSecretFiles(o Options) {
	_ = filesOf(o.StateDir, func(root *os.Root, path string, info fs.FileInfo) {
		if !info.Mode().IsRegular() || info.Size() > maxSecretFile {
			return
		}
		content, _ := root.ReadFile(path) // unreadable files are not in the report either
		a.addPrivateKeys(content)
	})
	for _, path := range o.Files {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // unreadable files are not in the report either
		}
		if bytes.Contains(content, []byte("-----BEGIN ")) {
			a.addPrivateKeys(content)
			continue
		}
		a.redact.AddSecret(string(content))
	}
}

// addPrivateKeys adds the private keys in PEM text, but not its certificates.
func (a *archive) addPrivateKeys(content []byte) {
	for {
		var block *pem.Block
		if block, content = pem.Decode(content); block == nil {
			return
		}
		if strings.HasSuffix(block.Type, "PRIVATE KEY") {
			a.redact.AddSecret(string(pem.EncodeToMemory(block)))
		}
	}
}
