package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/bench/child"
	"github.com/pgmesh/pgmesh/bench/timing"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

// The aims for a thousand clients.
const (
	aimReach = 100 * time.Millisecond
	aimIdle  = 60 << 10 // bytes of the server's memory per client
	// crowdResources is the size of the mesh: it is sent to a thousand clients before anything is
	// measured.
	crowdResources = 2000
	// A change is two messages of about these sizes to each client: the resource, and the mark that
	// ends its batch.
	changeFrame, markFrame = 900, 220
)

// benchClients connects many clients to one server, measures their memory while they are idle, and
// how long one change takes to reach all. It alternates with a bare server that sends as many
// bytes.
func benchClients(ctx context.Context, o options) error {
	s, err := startServer(ctx, meshRows(min(o.resources, crowdResources)))
	if err != nil {
		return err
	}
	defer s.stop()
	crowd, err := weigh(ctx, o, s)
	if err != nil {
		return err
	}
	defer crowd.Stop()
	conn, err := pgx.Connect(ctx, s.database)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	floor, bare, err := startFloor(o.clients)
	if err != nil {
		return err
	}
	defer floor.Stop()
	defer bare.Stop()
	start := usage.Now()
	var all, first, least []time.Duration
	for i := range o.warmup + o.changes {
		reached, err := reach(ctx, conn, crowd, i)
		if err != nil {
			return fmt.Errorf("change %d: %w", i, err)
		}
		woken, err := wake(floor, bare)
		if err != nil {
			return fmt.Errorf("change %d of the floor: %w", i, err)
		}
		if i >= o.warmup {
			all, first, least = append(all, reached.last), append(first, reached.first), append(least, woken.last)
		}
	}
	reportReach(o, first, all, least)
	meanwhile(start)
	return nil
}

// weigh connects the clients, leaves them idle, and prints what they cost the server.
func weigh(ctx context.Context, o options, s *served) (*child.Process, error) {
	before := usage.MemoryOf(s.program.Pid())
	crowd, took, err := startCrowd("crowd", s.address, o.clients)
	if err != nil {
		return nil, err
	}
	connected := usage.MemoryOf(s.program.Pid())
	fmt.Fprintf(os.Stderr, "%d clients are connected and left alone for %s …\n", o.clients, o.rest)
	select {
	case <-time.After(o.rest):
	case <-ctx.Done():
		crowd.Stop()
		return nil, ctx.Err()
	}
	rested := usage.MemoryOf(s.program.Pid())
	each := (rested.Now - before.Now) / int64(o.clients)
	fmt.Fprintf(os.Stdout, "\n%d clients were served within %s; the server had %s before they came, %s then, and %s when they had been idle for %s:\n"+
		"%.1f kB a client (aim: under %d kB, %s)\n", o.clients, took.Round(time.Millisecond), megabytes(before.Now), megabytes(connected.Now),
		megabytes(rested.Now), o.rest, float64(each)/1024, aimIdle>>10, met(each < aimIdle))
	return crowd, nil
}

func reportReach(o options, first, all, least []time.Duration) {
	for _, d := range [][]time.Duration{all, first, least} {
		slices.Sort(d)
	}
	t := newTimesTable(fmt.Sprintf("From the COMMIT call of one change to %d clients that have it, %d changes in turns", o.clients, len(all)))
	t.line("the first client", first)
	t.line("the last client", all)
	t.line("floor: the last of as many bare streams", least)
	t.Flush()
	fmt.Fprintf(os.Stdout, "\np50 of the last client is %s (aim: under %s, %s), %.1f times the floor's\n",
		millis(timing.Percentile(all, 50)), aimReach, met(timing.Percentile(all, 50) < aimReach),
		float64(timing.Percentile(all, 50))/float64(timing.Percentile(least, 50)))
}

// startCrowd connects clients, and returns when each has been served.
func startCrowd(command, address string, clients int) (*child.Process, time.Duration, error) {
	start := time.Now()
	c, err := child.Start(command, address, strconv.Itoa(clients))
	if err != nil {
		return nil, 0, err
	}
	var served round
	if err := c.Read(&served); err != nil {
		c.Stop()
		return nil, 0, err
	}
	return c, time.Since(start), nil
}

func startFloor(clients int) (server, crowd *child.Process, err error) {
	if server, err = child.Start("bare"); err != nil {
		return nil, nil, err
	}
	address, err := server.Line()
	if err == nil {
		crowd, _, err = startCrowd("bare-crowd", address, clients)
	}
	if err != nil {
		server.Stop()
	}
	return server, crowd, err
}

// reached is how long a change took to the first client and to the last.
type reached struct{ first, last time.Duration }

func (r round) since(start time.Time) reached {
	return reached{time.Unix(0, r.First).Sub(start), time.Unix(0, r.Last).Sub(start)}
}

func reach(ctx context.Context, conn *pgx.Conn, crowd *child.Process, number int) (reached, error) {
	timing.Settle()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return reached{}, err
	}
	if _, err := tx.Exec(ctx, changeOne, fmt.Sprintf("%ds", 10+number), fmt.Sprint("service-", number%20)); err != nil {
		return reached{}, err
	}
	start := time.Now()
	if err := tx.Commit(ctx); err != nil {
		return reached{}, err
	}
	var r round
	err = crowd.Read(&r)
	return r.since(start), err
}

func wake(floor, crowd *child.Process) (reached, error) {
	timing.Settle()
	start := time.Now()
	if err := floor.Send(fmt.Sprint(changeFrame, " ", markFrame)); err != nil {
		return reached{}, err
	}
	var r round
	err := crowd.Read(&r)
	return r.since(start), err
}
