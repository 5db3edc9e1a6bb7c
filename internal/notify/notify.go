// Package notify tells the service manager, which is systemd where a unit says Type=notify, how a program is: that it serves, that it reloads,
// that it ends, and again and again that it is alive. Where nobody asked to be told it does nothing.
//
// The protocol is datagrams of lines NAME=VALUE to the socket that NOTIFY_SOCKET names: sd_notify(3).
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

	"github.com/pgmesh/pgmesh/internal/wait"
)

// Status is a sentence for `systemctl status`.
func Status(sentence string) error {
	return tell("STATUS=" + oneLine(sentence))
}

// Ready says that the program serves, for the first time or again after Reloading.
func Ready() error { return tell("READY=1") }

// Patience says what the program waits for, as it starts or ends, and that it may take that much longer.
func Patience(sentence string, longer time.Duration) error {
	return tell("STATUS="+oneLine(sentence), fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", longer.Microseconds()))
}

// Reloading says that the program starts anew within its process, and is Ready when it has. Who is told needs the time to know which of two
// came first.
func Reloading() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("read the clock: %w", err)
	}
	return tell("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/int64(time.Microsecond)))
}

// Stopping says that the program has begun to end.
func Stopping() error { return tell("STOPPING=1") }

// patience is how long a service manager that reads nothing may hold up who tells it something.
const patience = time.Second

// tell sends lines to the service manager if there is one that wants to know.
func tell(lines ...string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	if _, err := conn.Write([]byte(strings.Join(lines, "\n") + "\n")); err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	return nil
}

// often is how often the status is told where there is no watchdog, and seldom enough to cost nothing.
const often = 10 * time.Second

// Run says that the program is ready, then that it is alive until the context ends, and then that it is ending. Look tells how the program is,
// which becomes its status. It goes through the locks that the program's work goes through: while it does not return the program does not count as
// alive. What it says does not matter for that, for a program whose database is away is not helped by a new start.
//
// A service manager that cannot be told ends nobody: what there is to serve matters more.
func Run(ctx context.Context, look func() string) error {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return nil
	}
	last := look()
	_ = tell("READY=1", "STATUS="+oneLine(last))
	watched := watchdog(os.Getenv)
	every := often
	if watched > 0 {
		every = watched / 3 // two may be late
	}
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			_ = tell("STOPPING=1", "STATUS=ending")
			return nil
		case <-ticks.C:
			var lines []string
			if now := look(); now != last {
				last, lines = now, append(lines, "STATUS="+oneLine(now))
			}
			if watched > 0 {
				lines = append(lines, "WATCHDOG=1")
			}
			if len(lines) > 0 {
				_ = tell(lines...)
			}
		}
	}
}

// soon is how often a program is asked whether it is ready for the first time.
const soon = 50 * time.Millisecond

// Once is Run for a program that is not ready from the start: what it waits for is its status until then.
func Once(ctx context.Context, look func() (about string, ready bool)) error {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return nil
	}
	last := ""
	for {
		now, ready := look()
		if ready {
			return Run(ctx, func() string { about, _ := look(); return about })
		}
		if now != last {
			_, last = Status(now), now
		}
		if !wait.For(ctx, soon) {
			return Stopping()
		}
	}
}

func oneLine(sentence string) string { return strings.ReplaceAll(sentence, "\n", " ") }

// watchdog is how long the service manager waits for a sign of life of this process, 0 if it does not.
func watchdog(getenv func(string) string) time.Duration {
	if pid := getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0 // it is another process that is watched
	}
	microseconds, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || microseconds <= 0 {
		return 0
	}
	return time.Duration(microseconds) * time.Microsecond
}
