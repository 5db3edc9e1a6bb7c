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

	"github.com/pgmesh/pgmesh/internal/replace"
	"github.com/pgmesh/pgmesh/mesh-agent/statedir"
)

const (
	adminFile = "admin" // where Envoy writes the address of its admin API

	// manyWords is how many lines of its log explain why Envoy could not start.
	manyWords = 20
)

// wanted is the Envoy that the options ask for, as long as it is not known which place in a row of epochs it takes.
func (s *Supervisor) wanted() (record, error) {
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
	return record{Program: program, Image: image, Account: s.Account.name(), Wanted: hex.EncodeToString(hash.Sum(nil)), Boot: statedir.Boot()}, nil
}

// imageOnDisk tells files apart that were put in the same place, without reading them: Envoy has a hundred megabytes.
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

// compact is JSON without the white space, of which the encoder of protobuf's JSON puts some by chance.
func compact(text []byte) []byte {
	var short bytes.Buffer
	if json.Compact(&short, text) != nil {
		return text
	}
	return short.Bytes()
}

// launch starts an Envoy beside those that live, and has it noted before and after: an agent that is killed in between leaves one that
// is found again by its number, or shared memory that is given back.
func (s *Supervisor) launch(r record, beside []*life) (*life, error) {
	if err := errors.Join(s.writeBootstrap(r), s.own(s.bootstrapFile(r)), s.note(append(recordsOf(beside), r)...)); err != nil {
		return nil, err
	}
	api := admin(filepath.Join(s.ownFolder(), adminFile))
	_ = os.Remove(string(api)) // the one of an earlier life
	cmd := exec.Command(r.Program, append(append([]string{
		"--config-path", s.bootstrapFile(r),
		"--admin-address-path", string(api),
	}, hotArgs(r, s.parentShutdown())...), s.Args...)...)
	cmd.Env = append(os.Environ(), s.Environment...)
	cmd.Stdout, cmd.Stderr = s.output.Files()
	if err := s.spawn(cmd, r.Hot); err != nil {
		return nil, fmt.Errorf("start %s: %w: is it an Envoy for this kind of machine? --envoy names another", r.Program, err)
	}
	var err error
	r.Pid, r.Born = cmd.Process.Pid, time.Now()
	if r.Start, err = startOf(r.Pid); err != nil && canAdopt {
		return nil, errors.Join(err, cmd.Process.Kill())
	}
	h, err := hold(r.Pid)
	if err != nil {
		return nil, errors.Join(err, cmd.Process.Kill())
	}
	l := watched(r, h, api)
	if err := s.note(append(recordsOf(beside), r)...); err != nil {
		l.kill()
		return nil, err
	}
	return l, nil
}

// spawn starts a process that is as tied to this one as it is to be.
func (s *Supervisor) spawn(cmd *exec.Cmd, hot bool) error {
	switch {
	case s.Tied:
		cmd.SysProcAttr = tied()
		s.Account.take(cmd.SysProcAttr, s.Transparent)
		return s.thread.do(cmd.Start)
	default:
		cmd.SysProcAttr = lasting()
		s.Account.take(cmd.SysProcAttr, s.Transparent)
		if hot {
			return startLasting(cmd)
		}
		return cmd.Start()
	}
}

// bootstrapFile is named by what is wanted: an Envoy that is just starting reads its own, though another is wanted already.
func (s *Supervisor) bootstrapFile(r record) string {
	return filepath.Join(s.Folder, "bootstrap-"+r.Wanted[:12]+".json")
}

func (s *Supervisor) writeBootstrap(r record) error {
	return replace.File(s.bootstrapFile(r), s.Bootstrap)
}

// Validate has Envoy look at the bootstrap, without starting anything.
func (s *Supervisor) Validate(ctx context.Context) error {
	want, err := s.wanted()
	if err != nil {
		return err
	}
	return errors.Join(s.writeBootstrap(want), s.validate(ctx, want))
}

// validate has the program look at the bootstrap, before a running Envoy is given up for it.
func (s *Supervisor) validate(ctx context.Context, want record) error {
	output, err := exec.CommandContext(ctx, want.Program, append([]string{
		"--mode", "validate", "--disable-hot-restart", "--config-path", s.bootstrapFile(want),
	}, s.Args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s refuses the bootstrap (%w):\n%s", want.Program, err, lastOf(string(output)))
	}
	return nil
}

func lastOf(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-manyWords):], "\n")
}

// cameUp tells whether Envoy understood its configuration: it opens the admin API after that.
func (l *life) cameUp() bool {
	_, err := l.admin.address()
	return err == nil
}

// cannotBind finds the address in what Envoy says when its admin API cannot be opened.
var cannotBind = regexp.MustCompile(`cannot bind '([^']+)': Address already in use`)

// explain says why Envoy could not start and what to do about it.
func (s *Supervisor) explain(l *life) error {
	words := s.lastWords()
	if found := cannotBind.FindStringSubmatch(words); found != nil {
		return fmt.Errorf("the address %s of Envoy's admin API is in use (by another mesh-agent?): "+
			"end the other program, or choose another address with --admin", found[1])
	}
	return fmt.Errorf("%s ended while it started (%s); its last words:\n%s", l.Program, l.how, words)
}

// lastWords are those of Envoy's log.
func (s *Supervisor) lastWords() string {
	s.output.CatchUp()
	return s.words.String()
}
