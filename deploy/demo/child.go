package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/process"
)

const (
	// stopTimeout is how long a child may take to exit.
	stopTimeout = 10 * time.Second

	// readyInterval is how often to ask a starting program whether it is ready.
	readyInterval = 20 * time.Millisecond

	// tailLines is how many of a dead child's last log lines to show.
	tailLines = 15
)

// child is a program that the demo runs.
type child struct {
	*process.Process

	name, logFile string
	log           *os.File
	words         *process.Tail
}

// startChild runs a program whose output goes to a file in the log folder, with further environment
// variables.
func startChild(o *options, name string, variables []string, args ...string) (*child, error) {
	logFile := filepath.Join(o.data, "logs", name+".log")
	log, err := os.Create(logFile)
	if err != nil {
		return nil, err
	}
	c := &child{name: name, logFile: logFile, log: log, words: process.NewTail(tailLines)}
	cmd := exec.Command(filepath.Join(o.bin, name), args...)
	cmd.Env = append(os.Environ(), variables...)
	output := io.MultiWriter(log, c.words)
	cmd.Stdout, cmd.Stderr = output, output
	if c.Process, err = process.Start(cmd); err != nil {
		log.Close()
		return nil, fmt.Errorf("%w: run `make build`", err)
	}
	return c, nil
}

func (c *child) stop() {
	c.Stop(stopTimeout)
	c.log.Close()
}

// died returns the error for a child that exited by itself.
func (c *child) died() error {
	return fmt.Errorf("%s ended (%s), its last words are below, its whole log is %s\n%s", c.name, c.ExitStatus(), c.logFile, c.words)
}

// awaitReady returns when the child answers a GET of url with 200.
func (c *child) awaitReady(ctx context.Context, url string) error {
	ask := time.NewTicker(readyInterval)
	defer ask.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.Done():
			return c.died()
		case <-ask.C:
			if isReady(ctx, url) {
				return nil
			}
		}
	}
}

func isReady(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}
