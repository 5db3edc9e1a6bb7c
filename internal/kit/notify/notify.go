// Package notify reports a program's state to the service manager: ready, reloading, stopping, and
// alive at the watchdog interval. The service manager is systemd when the unit has Type=notify.
// Without NOTIFY_SOCKET in the environment every function does nothing.
//
// Each message is one datagram of NAME=VALUE lines to the socket that NOTIFY_SOCKET names; see
// sd_notify(3).
package notify

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
)

// Awaited reports whether there is a service manager that waits for what this package tells.
func Awaited() bool { return socket() != "" }

func socket() string { return os.Getenv("NOTIFY_SOCKET") }

// Status sets the sentence that `systemctl status` shows.
func Status(sentence string) error {
	return send("STATUS=" + oneLine(sentence))
}

// Ready reports that the program serves, for the first time or again after Reloading.
func Ready() error { return send("READY=1") }

// ExtendTimeout reports what the program waits for while it starts or stops, and asks for that much
// more time.
func ExtendTimeout(sentence string, longer time.Duration) error {
	return send("STATUS="+oneLine(sentence), fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", longer.Microseconds()))
}

// Reloading reports that the program restarts within its process; Ready reports that it is done.
// systemd needs the time to match the two messages.
func Reloading() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("read the clock: %w", err)
	}
	return send("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/int64(time.Microsecond)))
}

// Stopping reports that the program has begun to stop.
func Stopping() error { return send("STOPPING=1") }

// writeTimeout bounds a write to a service manager that does not read its socket.
const writeTimeout = time.Second

// send sends lines to the service manager, if there is one.
func send(lines ...string) error {
	path := socket()
	if path == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	if _, err := conn.Write([]byte(strings.Join(lines, "\n") + "\n")); err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	return nil
}

// statusInterval is how often Run updates the status where there is no watchdog.
const statusInterval = 10 * time.Second

// Run reports that the program is ready, then that it is alive until ctx ends, then that it is
// stopping. status returns the sentence for `systemctl status`. It should take the same locks as
// the program's work: while it blocks, Run sends no keep-alive, and the watchdog restarts the
// program. The sentence itself does not matter to the watchdog, because a restart does not help a
// program whose database is away.
//
// Run ignores errors from the service manager: serving matters more.
func Run(ctx context.Context, status func() string) error {
	if !Awaited() {
		return nil
	}
	last := status()
	_ = send("READY=1", "STATUS="+oneLine(last))
	timeout := watchdogTimeout(os.Getenv)
	interval := statusInterval
	if timeout > 0 {
		interval = timeout / 3 // so two keep-alives in a row may be late
	}
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			_ = send("STOPPING=1", "STATUS=ending")
			return nil
		case <-ticks.C:
			var lines []string
			if now := status(); now != last {
				last, lines = now, append(lines, "STATUS="+oneLine(now))
			}
			if timeout > 0 {
				lines = append(lines, "WATCHDOG=1")
			}
			if len(lines) > 0 {
				_ = send(lines...)
			}
		}
	}
}

// readyInterval is how often RunWhenReady checks whether the program is ready.
const readyInterval = 50 * time.Millisecond

// RunWhenReady is Run for a program that is not ready from the start. Until it is, its status is
// what it waits for.
func RunWhenReady(ctx context.Context, status func() (about string, ready bool)) error {
	if !Awaited() {
		return nil
	}
	last := ""
	for {
		now, ready := status()
		if ready {
			return Run(ctx, func() string { about, _ := status(); return about })
		}
		if now != last {
			_, last = Status(now), now
		}
		if !wait.For(ctx, readyInterval) {
			return Stopping()
		}
	}
}

func oneLine(sentence string) string { return strings.ReplaceAll(sentence, "\n", " ") }

// watchdogTimeout returns how long the service manager waits for a keep-alive from this process, or
// 0 if it does not.
func watchdogTimeout(getenv func(string) string) time.Duration {
	if pid := getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0 // the watchdog watches another process
	}
	microseconds, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || microseconds <= 0 {
		return 0
	}
	return time.Duration(microseconds) * time.Microsecond
}
