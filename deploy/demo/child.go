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

	"github.com/pgmesh/pgmesh/internal/process"
)

const (
	// stopWithin is how long a child may take to end by itself.
	stopWithin = 10 * time.Second

	// askEvery is how often a starting program is asked whether it is ready.
	askEvery = 20 * time.Millisecond

	// lastWords is how many lines of its log a dead child is remembered by.
	lastWords = 15
)

// child is a program that the demo runs.
type child struct {
	*process.Process

	name, logFile string
	log           *os.File
	words         *process.Tail
}

// startChild runs a program whose output goes to a file in the folder for logs.
func startChild(o *options, name string, args ...string) (*child, error) {
	logFile := filepath.Join(o.data, "logs", name+".log")
	log, err := os.Create(logFile)
	if err != nil {
		return nil, err
	}
	c := &child{name: name, logFile: logFile, log: log, words: process.NewTail(lastWords)}
	cmd := exec.Command(filepath.Join(o.bin, name), args...)
	output := io.MultiWriter(log, c.words)
	cmd.Stdout, cmd.Stderr = output, output
	if c.Process, err = process.Start(cmd); err != nil {
		log.Close()
		return nil, fmt.Errorf("%w: run `make build`", err)
	}
	return c, nil
}

func (c *child) stop() {
	c.Stop(stopWithin)
	c.log.Close()
}

// died is the error that a child which ended by itself leaves.
func (c *child) died() error {
	return fmt.Errorf("%s ended (%s), its last words are below, its whole log is %s\n%s", c.name, c.ExitStatus(), c.logFile, c.words)
}

// awaitReady returns when the child answers a GET of url with 200.
func (c *child) awaitReady(ctx context.Context, url string) error {
	ask := time.NewTicker(askEvery)
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
