package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// examinee is the discovery under examination, and the script that gives it a case.
type examinee struct {
	xds, http string
	apply     string
	cmd       *exec.Cmd
}

// start builds discovery and runs it on a directory that is still empty.
func start(ctx context.Context, work string) (*examinee, error) {
	program, config, logFile := filepath.Join(work, "discovery"), filepath.Join(work, "config"), filepath.Join(work, "discovery.log")
	compile := exec.CommandContext(ctx, "go", "build", "-o", program, "./discovery")
	compile.Stderr = os.Stderr
	if err := compile.Run(); err != nil {
		return nil, fmt.Errorf("build discovery: %w", err)
	}
	if err := os.Mkdir(config, 0o755); err != nil {
		return nil, err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	e := &examinee{cmd: exec.CommandContext(ctx, program, "run", "--insecure", "--log-format", "json",
		"--config-dir", config, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")}
	e.cmd.Stderr, e.cmd.Stdout = in, in
	e.cmd.Cancel = func() error { return e.cmd.Process.Signal(syscall.SIGTERM) }
	if err := e.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start discovery: %w", err)
	}
	in.Close()
	if err := e.readAddresses(out, logFile); err != nil {
		return nil, err
	}
	return e, e.writeScript(work, config)
}

// readAddresses finds in the log where discovery listens; the rest of it goes into a file.
func (e *examinee) readAddresses(log io.ReadCloser, file string) error {
	to, err := os.Create(file)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fmt.Fprintln(to, lines.Text())
		var line struct{ Msg, XDS, HTTP string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving" {
			e.xds, e.http = line.XDS, line.HTTP
			go func() { // until discovery ends
				defer to.Close()
				defer log.Close()
				_, _ = io.Copy(to, log)
			}()
			return nil
		}
	}
	text, _ := os.ReadFile(file)
	return fmt.Errorf("discovery did not start: %s", text)
}

// writeScript makes the command that the runner gives each case to: this program's own apply.
func (e *examinee) writeScript(work, config string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	e.apply = filepath.Join(work, "apply")
	script := fmt.Sprintf("#!/bin/sh\nexec %q apply --to %q --page %q \"$1\"\n", self, config, "http://"+e.http+"/files")
	return os.WriteFile(e.apply, []byte(script), 0o755)
}

// stop ends discovery and waits for it.
func (e *examinee) stop() {
	_ = e.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	_ = e.cmd.Wait()
}
