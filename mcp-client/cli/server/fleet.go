package server

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/change"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// fleet is a number of clients of one server.
type fleet struct {
	program program
	kinds   []*kinds.Kind
	clients []*benchClient

	fail    context.CancelCauseFunc // ends all clients; the first reason counts
	running sync.WaitGroup
	arrived chan arrival
}

// benchClient is one client of a fleet.
type benchClient struct {
	bytes     atomic.Int64
	resources int
	stateAt   time.Duration // since the start
	stateSize int64
}

// arrival says that a client has received a revision.
type arrival struct {
	client   int
	revision int64
	at       time.Time
}

func newFleet(p program, ks []*kinds.Kind, size int) *fleet {
	f := &fleet{program: p, kinds: ks, clients: make([]*benchClient, size), arrived: make(chan arrival, size)}
	for i := range f.clients {
		f.clients[i] = &benchClient{}
	}
	return f
}

// connect starts all clients, and returns when each has the whole state or when one fails.
func (f *fleet) connect(ctx context.Context, received func(int)) error {
	ctx, f.fail = context.WithCancelCause(ctx)
	began := time.Now()
	for i, c := range f.clients {
		f.running.Go(func() {
			on := &connect.Events{
				Patient: true, // it is these clients that the server is busy with
				Message: func(bytes int) { c.bytes.Add(int64(bytes)); received(bytes) },
				Lost:    func(err error) { f.fail(f.program.Server.Explain(err)) },
			}
			first := true
			f.fail(f.program.Server.Follow(ctx, f.kinds, on, func(b kinds.Batch) error {
				now := time.Now()
				if first {
					first = false
					c.stateAt, c.stateSize, c.resources = now.Sub(began), c.bytes.Load(), len(b.Changes)
				}
				select {
				case f.arrived <- arrival{i, b.Revision, now}:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}))
		})
	}
	for range f.clients {
		if _, err := f.next(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) next(ctx context.Context) (arrival, error) {
	select {
	case a := <-f.arrived:
		return a, nil
	case <-ctx.Done():
		return arrival{}, context.Cause(ctx)
	}
}

// end stops all clients and waits for them.
func (f *fleet) end() {
	f.fail(nil)
	f.running.Wait()
}

func (f *fleet) measured() measured {
	m := measured{Clients: len(f.clients)}
	var times []time.Duration
	for _, c := range f.clients {
		times = append(times, c.stateAt)
		m.Resources = c.resources
		m.Bytes += c.stateSize
	}
	m.Bytes /= int64(len(f.clients))
	slices.Sort(times)
	m.State = percentilesOf(times)
	m.Seconds = m.State.Max
	return m
}

const benchName = "mcp-client-bench"

// change makes changes one after the other, each after the previous one has reached all clients.
func (f *fleet) change(ctx context.Context, count int) (_ *changed, err error) {
	var commits, each, all []time.Duration
	defer func() {
		if len(commits) > 0 {
			err = firstError(err, f.cleanUp(context.WithoutCancel(ctx)))
		}
	}()
	for number := range count {
		began := time.Now()
		revision, err := f.apply(ctx, number)
		if err != nil {
			return nil, err
		}
		commits = append(commits, time.Since(began))
		reached, err := f.reach(ctx, revision)
		if err != nil {
			return nil, err
		}
		for _, at := range reached {
			each = append(each, at.Sub(began))
		}
		all = append(all, slices.MaxFunc(reached, time.Time.Compare).Sub(began))
	}
	for _, times := range [][]time.Duration{commits, each, all} {
		slices.Sort(times)
	}
	return &changed{count, percentilesOf(commits), percentilesOf(each), percentilesOf(all)}, nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) apply(ctx context.Context, number int) (revision int64, err error) {
	p := f.program
	document := fmt.Sprintf(`{"apiVersion": %q, "kind": %q, "metadata": {"name": %q, "namespace": %q, "labels": {"run": "%d-%d"}},
		"spec": {"hosts": ["%s.invalid"], "resolution": "NONE", "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}]}}`,
		benchKind.APIVersion(), benchKind.Name, benchName, p.Namespace.Name, os.Getpid(), number, benchName)
	resp, err := session.Change(ctx, p.Session, adminv1.AdminServiceClient.Apply, &adminv1.ApplyRequest{
		Documents: []*adminv1.Document{{Content: []byte(document)}}, Message: "mcp-client bench", Author: change.Author(),
	})
	return resp.GetRevision(), err
}

// reach waits until every client has the revision or a later one, and returns when each had it.
func (f *fleet) reach(ctx context.Context, revision int64) ([]time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, f.program.Server.Timeout, fmt.Errorf("the revision %d did not reach all clients within %s", revision, f.program.Server.Timeout))
	defer cancel()
	reached := map[int]time.Time{}
	for len(reached) < len(f.clients) {
		a, err := f.next(ctx)
		if err != nil {
			return nil, err
		}
		if _, before := reached[a.client]; a.revision >= revision && !before {
			reached[a.client] = a.at
		}
	}
	times := make([]time.Time, 0, len(reached))
	for _, at := range reached {
		times = append(times, at)
	}
	return times, nil
}

// cleanUp deletes the resource of the benchmark.
func (f *fleet) cleanUp(ctx context.Context) error {
	p := f.program
	key := kinds.Key{Kind: benchKind, Namespace: p.Namespace.Name, Name: benchName}
	_, err := session.Change(ctx, p.Session, adminv1.AdminServiceClient.Delete, &adminv1.DeleteRequest{
		Resources: []*adminv1.ResourceRef{connect.RefOf(key)}, AllowMissing: true, Message: "mcp-client bench", Author: change.Author(),
	})
	return err
}
