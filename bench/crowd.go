package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/bench/bare"
)

// round is when the members of a crowd had all of a change, in nanoseconds of the machine's clock.
type round struct {
	Revision                 string
	First, Median, P99, Last int64
}

// member is one client of a crowd, with its own connection.
type member interface {
	// batch returns the revision of the next change when all of it has arrived.
	batch() (string, error)
}

// runCrowd connects many clients, and writes a line of JSON for each change that all of them have,
// beginning with the initial state. It ends when its standard input is closed.
func runCrowd(ctx context.Context, join func(context.Context, int) (member, error), clients int) error {
	arrived, failed := make(chan arrival, clients), make(chan error, clients)
	joined := make(chan struct{}, connectAtOnce)
	go func() {
		for i := range clients {
			joined <- struct{}{}
			m, err := join(ctx, i)
			if err != nil {
				failed <- fmt.Errorf("client %d: %w", i, err)
				return
			}
			go follow(m, arrived, failed, func() { <-joined })
		}
	}()
	out := json.NewEncoder(os.Stdout)
	for {
		r, err := gather(ctx, arrived, failed, clients)
		if err != nil {
			return err
		}
		if err := out.Encode(r); err != nil {
			return err
		}
	}
}

// connectAtOnce limits how many clients are receiving their initial state at the same time.
const connectAtOnce = 32

type arrival struct {
	revision string
	at       time.Time
}

func follow(m member, arrived chan<- arrival, failed chan<- error, served func()) {
	for ; ; served = func() {} {
		revision, err := m.batch()
		if err != nil {
			failed <- err
			return
		}
		arrived <- arrival{revision, time.Now()}
		served()
	}
}

// gather waits until each client has the change that the first one has.
func gather(ctx context.Context, arrived <-chan arrival, failed <-chan error, clients int) (r round, err error) {
	times := make([]int64, 0, clients)
	for len(times) < clients {
		select {
		case a := <-arrived:
			if len(times) > 0 && a.revision != r.Revision {
				return r, fmt.Errorf("a client has revision %s while others wait for %s", a.revision, r.Revision)
			}
			r.Revision = a.revision
			times = append(times, a.at.UnixNano())
		case err := <-failed:
			return r, err
		case <-ctx.Done():
			return r, ctx.Err()
		}
	}
	slices.Sort(times)
	r.First, r.Median, r.P99, r.Last = times[0], times[len(times)/2], times[len(times)*99/100], times[len(times)-1]
	return r, nil
}

func joinLight(address string) func(context.Context, int) (member, error) {
	return func(ctx context.Context, i int) (member, error) {
		c, err := newLight(ctx, address, fmt.Sprint("bench-", i))
		return &changed{light: c}, err
	}
}

// changed is a light client that requires a change to contain resources, and not just a mark.
type changed struct {
	*light

	last string
}

func (c *changed) batch() (string, error) {
	revision, err := c.light.batch()
	if err == nil && (c.changed != revision || c.last == revision) {
		return "", fmt.Errorf("revision %s has ended, and what it changed has not come", revision)
	}
	c.last = revision
	return revision, err
}

func joinBare(address string) func(context.Context, int) (member, error) {
	return func(ctx context.Context, _ int) (member, error) {
		w, err := bare.Wait(ctx, address)
		return &waiting{Waiting: w}, err
	}
}

// waiting is a client of the floor.
type waiting struct {
	*bare.Waiting

	rounds int
}

func (w *waiting) batch() (string, error) {
	w.rounds++
	if w.rounds > 1 { // in the first round the client only learns that it is waiting
		if err := w.Frames(2); err != nil {
			return "", err
		}
	}
	return fmt.Sprint(w.rounds), nil
}
