// Certificates measures how many certificates per second one discovery issues to machines that
// renew theirs, each on its own connection with mutual TLS. The floor, measured in the same run
// with the same clients, is a program that does only the necessary cryptography: handshake, check
// of the request, signature.
//
//	make bench-certificates
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/bench/timing"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

// aim is how many certificates per second one discovery must sign on two cores.
const aim = 500

type options struct {
	lasting   time.Duration
	workers   int
	turns     int
	floorOnly string // the folder of the floor's files, in the process of the floor
}

func main() {
	var o options
	pflag.DurationVar(&o.lasting, "for", 5*time.Second, "how long each is measured at a turn")
	pflag.IntVar(&o.workers, "clients", 16, "how many machines renew at the same time")
	pflag.IntVar(&o.turns, "turns", 3, "how often each is measured, in turns")
	pflag.StringVar(&o.floorOnly, "floor", "", "be the floor, with the files of a folder (for the program itself)")
	pflag.Parse()
	run := func() error { return o.run(os.Stdout) }
	if o.floorOnly != "" {
		run = func() error { return serveFloor(o.floorOnly) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "certificates:", err)
		os.Exit(1)
	}
}

// measured is the result of discovery or of the floor.
type measured struct {
	took []time.Duration // of each renewal
	wall time.Duration
	cpu  time.Duration // of the server
}

func (m *measured) add(other measured) {
	m.took, m.wall, m.cpu = append(m.took, other.took...), m.wall+other.wall, m.cpu+other.cpu
}

func (o *options) run(out io.Writer) error {
	folder, err := os.MkdirTemp("", "certificates")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	files, err := newFiles(folder)
	if err != nil {
		return err
	}
	discovery, err := startDiscovery(files)
	if err != nil {
		return err
	}
	defer discovery.stop()
	floor, err := startFloor(files)
	if err != nil {
		return err
	}
	defer floor.stop()
	var ours, bare measured
	before := usage.Now()
	for range o.turns {
		for _, turn := range []struct {
			server *server
			into   *measured
		}{{discovery, &ours}, {floor, &bare}} {
			m, err := o.measure(turn.server, files)
			if err != nil {
				return err
			}
			turn.into.add(m)
		}
	}
	o.report(out, &ours, &bare, before)
	if ours.onTwoCores() < aim {
		return errors.New("the aim was missed")
	}
	return nil
}

// measure lets machines renew for a while.
func (o *options) measure(s *server, files *files) (measured, error) {
	ctx, cancel := context.WithTimeout(context.Background(), o.lasting)
	defer cancel()
	type result struct {
		took []time.Duration
		err  error
	}
	results := make(chan result)
	cpu, begun := usage.CPUOf(s.pid), time.Now()
	for range o.workers {
		go func() {
			var r result
			for ctx.Err() == nil && r.err == nil {
				at := time.Now()
				r.err = s.renew(files)
				r.took = append(r.took, time.Since(at))
			}
			results <- r
		}()
	}
	var m measured
	var err error
	for range o.workers {
		r := <-results
		m.took, err = append(m.took, r.took...), errors.Join(err, r.err)
	}
	m.wall, m.cpu = time.Since(begun), usage.CPUOf(s.pid)-cpu
	return m, err
}

// rate is the number of certificates per second, with the clients on the same machine.
func (m *measured) rate() float64 { return float64(len(m.took)) / m.wall.Seconds() }

// each is the processor time of the server per certificate.
func (m *measured) each() time.Duration { return m.cpu / time.Duration(max(1, len(m.took))) }

// onTwoCores is how many certificates per second the server could issue with two cores to itself.
func (m *measured) onTwoCores() float64 { return 2 / m.each().Seconds() }

func (o *options) report(out io.Writer, ours, bare *measured, before usage.Time) {
	fmt.Fprintf(out, "\n%d machines renew their certificates at the same time, each over a new connection with mutual TLS, %d times %s in turns\n\n",
		o.workers, o.turns, o.lasting)
	fmt.Fprintf(out, "%-34s %10s %9s %9s %12s %14s\n", "", "a second", "p50", "p99", "CPU of each", "on two cores")
	for _, row := range []struct {
		name string
		m    *measured
	}{{"discovery", ours}, {"floor: handshake and signature", bare}} {
		slices.Sort(row.m.took)
		fmt.Fprintf(out, "%-34s %10.0f %9s %9s %12s %14.0f\n", row.name, row.m.rate(), timing.Percentile(row.m.took, 50).Round(10*time.Microsecond),
			timing.Percentile(row.m.took, 99).Round(10*time.Microsecond), row.m.each().Round(time.Microsecond), row.m.onTwoCores())
	}
	fmt.Fprintf(out, "\nA second: with the clients on the same machine, %s. On two cores: what the server's own time comes to; aim: %d, %s\n",
		usage.Processors(), aim, met(ours.onTwoCores() >= aim))
	fmt.Fprintf(out, "Machine meanwhile: %s\n", usage.Now().Since(before))
}

func met(yes bool) string {
	if yes {
		return "met"
	}
	return "MISSED"
}
