package supervise

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/replace"
	"github.com/pgmesh/pgmesh/mesh-agent/host/statedir"
)

const (
	adminFile = "admin" // Envoy writes the address of its admin API to it

	// logTailLines is how many lines of Envoy's log explain a failed start.
	logTailLines = 20
)

// desired returns the record of the Envoy that the options ask for, without process and hot restart
// fields.
func (s *Supervisor) desired() (record, error) {
	program, err := exec.LookPath(s.Envoy)
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return record{}, fmt.Errorf("%w: install Envoy, or say where it is with --envoy", err)
	}
	image, err := imageOnDisk(program)
	if err != nil {
		return record{}, err
	}
	hash := sha256.New()
	hash.Write(compact(s.Bootstrap))
	fmt.Fprintf(hash, "\x00%s\x00%s\x00%q\x00%q\x00%s\x00%v", program, image, s.Args, s.Environment, s.Account.name(), s.parentShutdown())
	return record{Program: program, Image: image, Account: s.Account.name(), ConfigHash: hex.EncodeToString(hash.Sum(nil)), Boot: statedir.Boot()}, nil
}

// imageOnDisk identifies a file by its metadata: an Envoy binary has a hundred megabytes, too much
// to hash.
func imageOnDisk(program string) (string, error) {
	info, err := os.Stat(program)
	if err != nil {
		return "", err
	}
	inode := uint64(0)
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = stat.Ino
	}
	return fmt.Sprintf("inode %d, %d bytes, of %s", inode, info.Size(), info.ModTime().UTC().Format(time.RFC3339Nano)), nil
}

// compact strips white space from JSON: protobuf's encoder adds some at random.
func compact(text []byte) []byte {
	var short bytes.Buffer
	if json.Compact(&short, text) != nil {
		return text
	}
	return short.Bytes()
}

// launch starts an Envoy beside the running ones. It writes the records before and after: if the
// agent is killed in between, the next one finds the process by its ID, or releases the shared
// memory.
func (s *Supervisor) launch(r record, beside []*instance) (*instance, error) {
	if err := errors.Join(s.writeBootstrap(r), s.chownFiles(s.bootstrapFile(r)), s.writeRecords(append(recordsOf(beside), r)...)); err != nil {
		return nil, err
	}
	api := admin(filepath.Join(s.ownFolder(), adminFile))
	_ = os.Remove(string(api)) // left by an earlier Envoy
	cmd := exec.Command(r.Program, append(append([]string{
		"--config-path", s.bootstrapFile(r),
		"--admin-address-path", string(api),
	}, hotRestartArgs(r, s.parentShutdown())...), s.Args...)...)
	cmd.Env = append(os.Environ(), s.Environment...)
	cmd.Stdout, cmd.Stderr = s.output.Files()
	if err := s.spawn(cmd, r.Hot); err != nil {
		return nil, fmt.Errorf("start %s: %w: is it an Envoy for this kind of machine? --envoy names another", r.Program, err)
	}
	var err error
	r.Pid, r.Started = cmd.Process.Pid, time.Now()
	if r.Start, err = startOf(r.Pid); err != nil && canAdopt {
		return nil, errors.Join(err, cmd.Process.Kill())
	}
	h, err := openHandle(r.Pid)
	if err != nil {
		return nil, errors.Join(err, cmd.Process.Kill())
	}
	l := watchProcess(r, h, api)
	if err := s.writeRecords(append(recordsOf(beside), r)...); err != nil {
		l.kill()
		return nil, err
	}
	return l, nil
}

// spawn starts a process, tied to this one or detached from it.
func (s *Supervisor) spawn(cmd *exec.Cmd, hot bool) error {
	switch {
	case s.Tied:
		cmd.SysProcAttr = tied()
		s.Account.apply(cmd.SysProcAttr, s.Transparent)
		return s.thread.do(cmd.Start)
	default:
		cmd.SysProcAttr = detached()
		s.Account.apply(cmd.SysProcAttr, s.Transparent)
		if hot {
			return startDetached(cmd)
		}
		return cmd.Start()
	}
}

// bootstrapFile is named after the configuration: an Envoy that is still starting reads its own
// file, even if another is written meanwhile.
func (s *Supervisor) bootstrapFile(r record) string {
	return filepath.Join(s.Folder, "bootstrap-"+r.ConfigHash[:12]+".json")
}

func (s *Supervisor) writeBootstrap(r record) error {
	return replace.File(s.bootstrapFile(r), s.Bootstrap)
}

// Validate checks the bootstrap with Envoy, without starting anything.
func (s *Supervisor) Validate(ctx context.Context) error {
	want, err := s.desired()
	if err != nil {
		return err
	}
	return errors.Join(s.writeBootstrap(want), s.validate(ctx, want))
}

// validate runs Envoy in validate mode, so that a running Envoy is not replaced for a bad
// bootstrap.
func (s *Supervisor) validate(ctx context.Context, want record) error {
	output, err := exec.CommandContext(ctx, want.Program, append([]string{
		"--mode", "validate", "--disable-hot-restart", "--config-path", s.bootstrapFile(want),
	}, s.Args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s refuses the bootstrap (%w):\n%s", want.Program, err, lastLines(string(output)))
	}
	return nil
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-logTailLines):], "\n")
}

// readConfiguration reports whether Envoy accepted its bootstrap: it opens the admin API after
// that.
func (l *instance) readConfiguration() bool {
	_, err := l.admin.address()
	return err == nil
}

// cannotBind matches Envoy's message when it cannot open its admin API.
var cannotBind = regexp.MustCompile(`cannot bind '([^']+)': Address already in use`)

// explain says why Envoy could not start and what to do about it.
func (s *Supervisor) explain(l *instance) error {
	words := s.logTail()
	if found := cannotBind.FindStringSubmatch(words); found != nil {
		return adminInUse(found[1])
	}
	return fmt.Errorf("%s ended while it started (%s); its last words:\n%s", l.Program, l.exit, words)
}

// logTail returns the last lines of Envoy's log.
func (s *Supervisor) logTail() string {
	s.output.CatchUp()
	return s.logTailBuffer.String()
}
