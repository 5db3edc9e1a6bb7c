// Join measures how long a machine takes to become a member of a mesh: from the start of mesh-agent
// join to the first answer through its Envoy and that of a server, with mutual TLS. It also
// measures the agent's memory, and how soon a killed Envoy serves again.
//
// The programs are pgmesh's own, with a real Postgres and real Envoys. The server stays. The
// clients come one after the other, and leave nothing behind.
//
//	make bench-join FLAGS='--machines 20 --services 1000'
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/internal/testbench/realenvoy"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

type options struct {
	machines int
	services int
	rest     time.Duration
	envoy    string
	bin      string
}

func main() {
	var o options
	pflag.IntVar(&o.machines, "machines", 20, "how many machines join, one after the other")
	pflag.IntVar(&o.services, "services", 0, "have one machine more join at the end, when the mesh has this many services beside the one that is called (0: none)")
	pflag.DurationVar(&o.rest, "rest", 2*time.Second, "how long after the first answer an agent is weighed")
	pflag.StringVar(&o.envoy, "envoy", "", "path of Envoy (default: $ENVOY, or what make tools put into .tools)")
	pflag.StringVar(&o.bin, "bin", "", "folder with the programs (default: they are built)")
	pflag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.check()
	if err == nil {
		err = run(ctx, &o)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "join:", err)
		os.Exit(1)
	}
}

func (o *options) check() (err error) {
	switch {
	case o.machines < 1:
		return fmt.Errorf("--machines %d: at least one has to join", o.machines)
	case o.services < 0:
		return fmt.Errorf("--services %d: give how many there are, or 0", o.services)
	case o.rest < 0:
		return fmt.Errorf("--rest %s: give how long an agent is left alone before it is weighed", o.rest)
	}
	o.envoy, err = filepath.Abs(realenvoy.Binary(o.envoy))
	if err != nil {
		return err
	}
	if _, err := os.Stat(o.envoy); err != nil {
		return fmt.Errorf("there is no Envoy to run: %w (make tools fetches one, --envoy names another)", err)
	}
	return nil
}

var errMissed = errors.New("an aim was missed")

func run(ctx context.Context, o *options) error {
	m, err := startMesh(ctx, o)
	if err != nil {
		return err
	}
	defer m.stop()
	r := report{options: o}
	before := usage.Now()
	for i := range o.machines {
		joined, err := m.measure(ctx, fmt.Sprintf("web-%d", i))
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%d of %d: %s\n", i+1, o.machines, joined)
		r.all = append(r.all, joined)
	}
	r.use = usage.Now().Since(before)
	if o.services > 0 {
		if r.large, err = m.measureLarge(ctx); err != nil {
			return err
		}
	}
	if !r.print(os.Stdout) {
		return errMissed
	}
	return nil
}
