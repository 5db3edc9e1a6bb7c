// Fleet lets many machines join a mesh, leave it, die, change their health, and move between
// discoveries, while parts of the control plane are killed. At the end it compares Postgres with
// the expected state, machine by machine. It also prints how much was written, and how long
// machines waited for their entries.
//
// The programs are pgmesh's own, with a real Postgres; the machines use the agents' protocol, each
// over its own gRPC connection.
//
//	make bench-fleet FLAGS='--machines 2000 --for 10m'
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

type options struct {
	machines      int
	lasting       time.Duration
	ramp          time.Duration
	grace         time.Duration
	pause         time.Duration
	killDiscovery bool
	killServer    bool
	killPostgres  bool
	bin           string
}

func main() {
	var o options
	pflag.IntVar(&o.machines, "machines", 2000, "how many machines there are")
	pflag.DurationVar(&o.lasting, "for", 10*time.Minute, "how long they come and go")
	pflag.DurationVar(&o.ramp, "ramp", 10*time.Second, "within what time all of them join first")
	pflag.DurationVar(&o.grace, "grace", 20*time.Second, "how long the entry of a machine stays that is gone without a word (mcp-server's --workload-grace)")
	pflag.DurationVar(&o.pause, "pause", 20*time.Second, "how long a machine stays as it is, on average")
	pflag.BoolVar(&o.killDiscovery, "kill-discovery", true, "kill one of the two discoveries, after a quarter of the time")
	pflag.BoolVar(&o.killServer, "kill-server", true, "kill mcp-server, after half of the time")
	pflag.BoolVar(&o.killPostgres, "kill-postgres", true, "kill Postgres, after three quarters of the time")
	pflag.StringVar(&o.bin, "bin", "", "folder with the programs (default: they are built)")
	pflag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, &o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

var errWrong = errors.New("what stands in Postgres is not what has to stand there")

func run(ctx context.Context, o *options) error {
	c, err := startControl(ctx, o)
	if err != nil {
		return err
	}
	defer c.stop()
	if err := c.describe(ctx); err != nil {
		return err
	}
	m := newMeter(c)
	measuring, measured := context.WithCancel(ctx)
	defer measured()
	metering := make(chan struct{})
	go func() { defer close(metering); m.run(measuring) }()
	f := newFleet(o, c.discoveries())
	fmt.Fprintf(os.Stderr, "%d machines come and go for %s …\n", o.machines, o.lasting)
	acting, tired := context.WithTimeout(ctx, o.lasting)
	faults := make(chan error, 1)
	go func() { faults <- c.faults(acting, o) }()
	f.run(acting)
	tired()
	if err := <-faults; err != nil {
		return err
	}
	m.calm() // only late changes are written from now on
	wrong, err := c.compare(ctx, o, f)
	measured()
	<-metering
	f.stop()
	if err != nil {
		return err
	}
	report(os.Stdout, o, c, f, m, wrong)
	if len(wrong) > 0 {
		return errWrong
	}
	return ctx.Err()
}
