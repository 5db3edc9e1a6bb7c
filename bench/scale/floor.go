package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/bench/bare"
	"github.com/pgmesh/pgmesh/bench/child"
)

// floor is a server that sends prepared messages to as many streams as there are proxies: the
// minimum that the same machine needs for the same bytes.
type floor struct {
	server  *child.Process
	clients []*bare.Waiting
	failed  chan error
}

// floorCommand makes this program act as that server.
const floorCommand = "bare"

func startFloor(ctx context.Context, streams int) (*floor, error) {
	server, err := child.Start(floorCommand)
	if err != nil {
		return nil, err
	}
	f := &floor{server: server, clients: make([]*bare.Waiting, streams), failed: make(chan error, streams)}
	address, err := server.Line()
	if err != nil {
		f.stop()
		return nil, err
	}
	for i := range f.clients {
		if f.clients[i], err = bare.Wait(ctx, address); err != nil {
			f.clients = f.clients[:i]
			f.stop()
			return nil, err
		}
	}
	return f, nil
}

// send has messages sent to each stream, and returns how long each stream took to receive them.
func (f *floor) send(messages, size int) ([]time.Duration, error) {
	at := make([]time.Time, len(f.clients))
	var waiting sync.WaitGroup
	for i, c := range f.clients {
		waiting.Go(func() {
			if err := c.Frames(messages); err != nil {
				f.failed <- err
			}
			at[i] = time.Now()
		})
	}
	start := time.Now()
	if err := f.server.Send(strings.Repeat(fmt.Sprint(size, " "), messages)); err != nil {
		return nil, err
	}
	waiting.Wait()
	select {
	case err := <-f.failed:
		return nil, err
	default:
		return since(start, at), nil
	}
}

func (f *floor) stop() {
	for _, c := range f.clients {
		c.Close()
	}
	f.server.Stop()
}
