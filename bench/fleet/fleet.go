package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// fleet is all machines.
type fleet struct {
	options     *options
	discoveries []string
	machines    []*machine
	lasting     context.Context //nolint:containedctx // ends the streams of machines that are there at the end
	end         context.CancelFunc
	olds        sync.WaitGroup // streams that are being replaced

	acts    atomic.Int64
	lost    atomic.Int64 // machines that could not leave in order
	refused atomic.Value // the last unexpected refusal

	mu    sync.Mutex
	joins []join
}

// join is how long a machine waited for its entry.
type join struct {
	begun time.Time
	took  time.Duration
}

func newFleet(o *options, discoveries []string) *fleet {
	f := &fleet{options: o, discoveries: discoveries}
	f.lasting, f.end = context.WithCancel(context.Background())
	for i := range o.machines {
		f.machines = append(f.machines, &machine{
			id: fmt.Sprintf("machine-%d", i), address: fmt.Sprintf("10.%d.%d.%d", 1+i/62500, i/250%250, 1+i%250), fleet: f, at: i % 2, health: machinev1.Health_HEALTH_HEALTHY,
		})
	}
	return f
}

func (f *fleet) dice() *rand.Rand { return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())) }

// run lets all machines live until the context ends. Machines that are connected then stay.
func (f *fleet) run(ctx context.Context) {
	var lives sync.WaitGroup
	for i, m := range f.machines {
		lives.Go(func() { m.live(ctx, f.lasting, f.options.ramp*time.Duration(i)/time.Duration(len(f.machines))) })
	}
	lives.Wait()
}

// over ends a replaced stream, unless it ends by itself within a second.
func (f *fleet) over(l *line) {
	f.olds.Go(func() {
		timer := time.NewTimer(time.Second)
		defer timer.Stop()
		<-timer.C
		l.cancel()
		<-l.done
	})
}

func (f *fleet) stop() {
	f.end()
	for _, m := range f.machines {
		if m.line != nil {
			<-m.line.done
		}
	}
	f.olds.Wait()
}

func (f *fleet) joined(begun time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.joins = append(f.joins, join{begun, time.Since(begun)})
}

// wanted returns the entries that Postgres must have: of each connected machine, its address and
// health.
func (f *fleet) wanted() map[string]string {
	all := map[string]string{}
	for _, m := range f.machines {
		if m.line != nil {
			all[m.id] = standing(m.address, m.health == machinev1.Health_HEALTH_HEALTHY)
		}
	}
	return all
}

func standing(address string, well bool) string {
	if well {
		return address + " healthy"
	}
	return address + " unhealthy"
}
