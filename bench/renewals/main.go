// Renewals measures whether a mesh can keep certificates short-lived: machines join with the
// agent's own packages, keep one connection to discovery each, and renew at half of their
// certificate's life, which is the mesh's setting certificate_lifetime. With certificates of
// minutes they renew as often in minutes as with hourly ones in hours.
//
// The programs are pgmesh's own, with a real Postgres. The machines run in this process, without
// Envoys.
//
//	make bench-renewals FLAGS='--machines 2000 --lifetime 10m --for 20m'
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
	machines int
	lifetime time.Duration
	lasting  time.Duration
	bin      string
}

func main() {
	var o options
	pflag.IntVar(&o.machines, "machines", 2000, "how many machines there are")
	pflag.DurationVar(&o.lifetime, "lifetime", 10*time.Minute, "how long their certificates live, from a minute on")
	pflag.DurationVar(&o.lasting, "for", 20*time.Minute, "for how long they renew, once all have joined")
	pflag.StringVar(&o.bin, "bin", "", "folder with the programs (default: they are built)")
	pflag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, &o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "renewals:", err)
		os.Exit(1)
	}
}

var errMissed = errors.New("an aim was missed")

func run(ctx context.Context, o *options) error {
	if o.machines < 1 || o.lasting < o.lifetime {
		return fmt.Errorf("--machines %d --for %s: there has to be one at least, for as long as a certificate lives", o.machines, o.lasting)
	}
	m, err := startMesh(ctx, o)
	if err != nil {
		return err
	}
	defer m.stop()
	f, err := m.fleet(ctx)
	if err != nil {
		return err
	}
	defer f.stop()
	r, err := m.measure(ctx, f)
	if err != nil {
		return err
	}
	if !r.print(os.Stdout) {
		return errMissed
	}
	return nil
}
