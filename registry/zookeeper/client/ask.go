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
// such node. ZooKeeper has it since 3.6; before, the error is Unimplemented.
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

// ask asks n questions, and returns when all are answered.
func (c *Conn) ask(ctx context.Context, n int, question func(i int) (operation int32, body request), take func(i int, err error, a *answer) error) error {
	if n == 0 {
		return nil
	}
	done := make(chan struct{})
	for i := range n {
		c.xid = c.xid%(1<<30) + 1
		asked := &call{xid: c.xid, take: func(err error, a *answer) error { return take(i, err, a) }}
		if i == n-1 {
			asked.done = done
		}
		operation, body := question(i)
		if err := c.queue(ctx, asked); err != nil {
			return err
		}
		if err := c.send(append(begin(asked.xid, operation), body...), i == n-1); err != nil {
			c.fail(err)
			return err
		}
	}
	return c.wait(ctx, func(again <-chan time.Time) bool {
		select {
		case <-done:
			return true
		case <-again:
		case <-ctx.Done():
		case <-c.ended:
		}
		return false
	})
}

// queue waits until there may be one more question.
func (c *Conn) queue(ctx context.Context, asked *call) error {
	select {
	case c.pending <- asked:
		return nil
	default:
	}
	if err := c.flush(); err != nil {
		c.fail(err)
		return err
	}
	return c.wait(ctx, func(again <-chan time.Time) bool {
		select {
		case c.pending <- asked:
			return true
		case <-again:
		case <-ctx.Done():
		case <-c.ended:
		}
		return false
	})
}

// wait waits until something is so. If nothing is answered for too long, also where pings are, the
// session ends.
func (c *Conn) wait(ctx context.Context, so func(again <-chan time.Time) bool) error {
	ticker := time.NewTicker(c.Patience)
	defer ticker.Stop()
	before := int64(-1)
	for !so(ticker.C) {
		select {
		case <-c.ended:
			return c.why
		default:
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		now := c.answered.Load()
		if now == before {
			c.fail(fmt.Errorf("ZooKeeper did not answer within %s, though it answers pings", c.Patience))
		}
		before = now
	}
	return nil
}
