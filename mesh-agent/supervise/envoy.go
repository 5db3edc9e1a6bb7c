package supervise

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/pgmesh/pgmesh/internal/process"
)

const (
	bootstrapFile = "bootstrap.json"
	adminFile     = "admin" // where Envoy writes the address of its admin API

	// terminateWithin is how long Envoy may take to end after SIGTERM. It needs milliseconds; one that needs this long
	// hangs.
	terminateWithin = 5 * time.Second

	// lastWords is how many lines of its log explain why Envoy could not start.
	lastWords = 20
)

var errNotStarted = errors.New("Envoy has not started yet")

// envoy is one life of Envoy.
type envoy struct {
	*process.Process

	program   string
	adminFile string
	born      time.Time
	words     *process.Tail
}

func startEnvoy(o Options, folder string) (*envoy, error) {
	program, err := exec.LookPath(o.Envoy)
	if err != nil {
		return nil, fmt.Errorf("%w: install Envoy, or say where it is with --envoy", err)
	}
	e := &envoy{
		program:   program,
		adminFile: filepath.Join(folder, adminFile),
		born:      time.Now(),
		words:     process.NewTail(lastWords),
	}
	_ = os.Remove(e.adminFile) // the one of an earlier life

	cmd := exec.Command(program, append([]string{
		"--config-path", filepath.Join(folder, bootstrapFile),
		"--admin-address-path", e.adminFile,
		"--disable-hot-restart",
	}, o.Args...)...)
	cmd.Stderr = io.MultiWriter(o.Output, e.words)
	if o.Stdout != nil {
		// Through a pipe, for Envoy opens /dev/stdout, and what systemd gives a service there is a socket, which cannot be opened.
		cmd.Stdout = struct{ io.Writer }{o.Stdout}
	}
	if e.Process, err = process.Start(cmd); err != nil {
		return nil, fmt.Errorf("%w: is it an Envoy for this kind of machine? --envoy names another", err)
	}
	return e, nil
}

func (e *envoy) lived() time.Duration { return time.Since(e.born) }

// cameUp tells whether Envoy understood its configuration: it opens the admin API after that.
func (e *envoy) cameUp() bool {
	_, err := os.Stat(e.adminFile)
	return err == nil
}

// cannotBind finds the address in what Envoy says when its admin API cannot be opened.
var cannotBind = regexp.MustCompile(`cannot bind '([^']+)': Address already in use`)

// explain says why Envoy could not start and what to do about it.
func (e *envoy) explain() error {
	words := e.words.String()
	if found := cannotBind.FindStringSubmatch(words); found != nil {
		return fmt.Errorf("the address %s of Envoy's admin API is in use (by another mesh-agent?): "+
			"end the other program, or choose another address with --admin", found[1])
	}
	return fmt.Errorf("%s ended while it started (%s); its last words:\n%s", e.program, e.How(), words)
}

func (e *envoy) terminate() error {
	e.Stop(terminateWithin)
	if e.WasKilled() {
		return fmt.Errorf("Envoy did not end within %s of SIGTERM and was killed", terminateWithin)
	}
	return nil
}
