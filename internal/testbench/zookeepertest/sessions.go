package zookeepertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"time"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// Sessions counts the sessions that the server keeps, that of the test among them.
func (z *ZooKeeper) Sessions() int {
	z.t.Helper()
	n, err := z.sessions()
	if err != nil {
		z.t.Fatal(err)
	}
	return n
}

// AwaitSessions waits until the server keeps so many sessions.
func (z *ZooKeeper) AwaitSessions(many int) {
	z.t.Helper()
	poll.Eventually(z.t, func(context.Context) error {
		n, err := z.sessions()
		if err == nil && n != many {
			err = fmt.Errorf("there are %d sessions, and not %d", n, many)
		}
		return err
	})
}

var sessions = regexp.MustCompile(`(?m)^zk_global_sessions\s+(\d+)`)

func (z *ZooKeeper) sessions() (int, error) {
	conn, err := net.DialTimeout("tcp", z.Address, time.Second)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "mntr"); err != nil {
		return 0, err
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		return 0, err
	}
	found := sessions.FindSubmatch(text)
	if found == nil {
		return 0, errors.New("ZooKeeper does not say how many sessions there are: " + string(text))
	}
	return strconv.Atoi(string(found[1]))
}
