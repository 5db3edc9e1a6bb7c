package client

import (
	"context"
	"fmt"
	"time"
)

// Names are the children of a node, or why they are not known.
type Names struct {
	Names []string
	Err   error // NoNode, NoAuth, ErrTooLarge
}

// Content is what a node holds, or why that is not known.
type Content struct {
	Bytes []byte
	Err   error // NoNode, NoAuth, ErrTooLarge
}

// Children asks for the children of nodes, many at a time. Where watch is set, the next change of
// each list is told, once.
func (c *Conn) Children(ctx context.Context, paths []string, watch bool) ([]Names, error) {
	out := make([]Names, len(paths))
	err := c.ask(ctx, len(paths), func(i int) (int32, request) {
		return operationChildren, request(nil).text(paths[i]).bool(watch)
	}, func(i int, err error, a *answer) error {
		if out[i].Err = err; err == nil {
			out[i].Names = a.texts()
		}
		return a.err
	})
	return out, err
}

// Contents asks for what nodes hold, many at a time. Where watch is set, the next change of each is
// told, once.
func (c *Conn) Contents(ctx context.Context, paths []string, watch bool) ([]Content, error) {
	out := make([]Content, len(paths))
	err := c.ask(ctx, len(paths), func(i int) (int32, request) {
		return operationData, request(nil).text(paths[i]).bool(watch)
	}, func(i int, err error, a *answer) error {
		if out[i].Err = err; err == nil {
			out[i].Bytes = append([]byte(nil), a.bytes()...)
		}
		return a.err
	})
	return out, err
}

// WatchAll has each change of a node and of all below it told from now on, also while there is no
// such node. ZooKeeper has it since 3.6; before, the error is Unimplemented, and the session ends.
func (c *Conn) WatchAll(ctx context.Context, path string) error {
	const recursive = 1
	return c.one(ctx, operationAddWatch, request(nil).text(path).int(recursive))
}

// AwaitNode has it told, once, when there is such a node. If there is already, it returns true.
func (c *Conn) AwaitNode(ctx context.Context, path string) (bool, error) {
	err := c.one(ctx, operationExists, request(nil).text(path).bool(true))
	if err == NoNode { //nolint:errorlint // a code is not wrapped
		return false, nil
	}
	return err == nil, err
}

// Sync waits until the server knows all that its leader knew: what is asked afterwards is not older
// than what another server has told before.
func (c *Conn) Sync(ctx context.Context, path string) error {
	return c.one(ctx, operationSync, request(nil).text(path))
}

// one asks one question to which there is nothing but yes or a code.
func (c *Conn) one(ctx context.Context, operation int32, body request) error {
	var code error
	err := c.ask(ctx, 1, func(int) (int32, request) { return operation, body }, func(_ int, err error, _ *answer) error {
		code = err
		return nil
	})
	if err != nil {
		return err
	}
	return code
}

// ask asks n questions, and returns when all are answered. Some go together, and others follow while
// those are answered.
func (c *Conn) ask(ctx context.Context, n int, question func(i int) (operation int32, body request), take func(i int, err error, a *answer) error) error {
	var earlier, last chan struct{}
	for from := 0; from < n; from += together {
		if err := c.wait(ctx, earlier); err != nil {
			return err
		}
		earlier, last = last, make(chan struct{})
		for i := from; i < min(from+together, n); i++ {
			c.xid = c.xid%(1<<30) + 1
			asked := &call{xid: c.xid, take: func(err error, a *answer) error { return take(i, err, a) }}
			ends := i == min(from+together, n)-1
			if ends {
				asked.done = last
			}
			select {
			case c.pending <- asked: // there is room: at most two lots are on their way
			case <-c.ended:
				return c.why
			}
			operation, body := question(i)
			if err := c.send(append(begin(asked.xid, operation), body...), ends); err != nil {
				c.fail(err)
				return c.why
			}
		}
	}
	return c.wait(ctx, last)
}

// wait waits until questions are answered. If nothing is answered for too long, also where pings are,
// the session ends.
func (c *Conn) wait(ctx context.Context, done <-chan struct{}) error {
	if done == nil {
		return nil
	}
	ticker := time.NewTicker(c.Patience)
	defer ticker.Stop()
	before := int64(-1)
	for {
		select {
		case <-done:
			return nil
		case <-c.ended:
			return c.why
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		now := c.answered.Load()
		if now == before {
			c.fail(fmt.Errorf("ZooKeeper did not answer within %s, though it answers pings", c.Patience))
		}
		before = now
	}
}
