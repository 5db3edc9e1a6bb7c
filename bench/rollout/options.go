package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

type options struct {
	only                     []string
	services, proxies, turns int
	changes                  int
	rate                     int
	lasting                  time.Duration

	many, manyServices, loadTurns int
	loadFor, idleFor              time.Duration
	waits, restarts               int
	pause, calm                   time.Duration
	flush                         time.Duration // how long after its work Postgres is asked what it has counted

	quick, strict bool
	bin           string
}

func (o *options) flags(f *pflag.FlagSet) {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	f.StringSliceVar(&o.only, "only", names, "what to measure, of "+strings.Join(names, ", "))
	f.IntVar(&o.services, "services", 1000, "services of the mesh, for cost and wait")
	f.IntVar(&o.proxies, "proxies", 500, "proxies, for cost and wait")
	f.IntVar(&o.turns, "turns", 6, "cost: how often reports are on, and how often they are off")
	f.IntVar(&o.changes, "changes", 100, "cost: changes in each turn, one after the other")
	f.IntVar(&o.rate, "rate", 10, "cost and load: changes a second, whether or not those before have arrived")
	f.DurationVar(&o.lasting, "for", 10*time.Second, "cost: how long changes come at that rate, in each turn")
	f.IntVar(&o.many, "many", 2000, "proxies, for load, idle and restart")
	f.IntVar(&o.manyServices, "many-services", 100, "services of the mesh, for load, idle and restart")
	f.IntVar(&o.loadTurns, "load-turns", 3, "load and idle: how often reports are on, and how often they are off")
	f.DurationVar(&o.loadFor, "load-for", 20*time.Second, "load: how long each turn lasts")
	f.DurationVar(&o.idleFor, "idle-for", 20*time.Second, "idle: how long each turn lasts")
	f.IntVar(&o.waits, "waits", 50, "wait: how often it is waited in each way")
	f.DurationVar(&o.pause, "pause", 500*time.Millisecond, "wait: how long nothing happens before a change, on average")
	f.DurationVar(&o.calm, "calm", 11*time.Second, "load and idle: how long proxies are connected before a turn begins: Postgres counts what an idle session did after ten seconds")
	f.IntVar(&o.restarts, "restarts", 5, "restart: how often discovery is killed")
	o.flush = 1500 * time.Millisecond // a busy session adds to the counters each second, and an idle one after ten
	f.BoolVar(&o.quick, "quick", false, "measure little, in seconds, to see that everything works: the figures mean nothing")
	f.BoolVar(&o.strict, "strict", false, "fail if an aim is missed")
	f.StringVar(&o.bin, "bin", "", "folder with the programs (default: they are built)")
}

// hurry makes the measurement small.
func (o *options) hurry() {
	o.services, o.proxies, o.turns, o.changes, o.lasting = 20, 10, 1, 3, time.Second/2
	o.many, o.manyServices, o.loadTurns, o.loadFor, o.idleFor = 20, 10, 1, time.Second/2, time.Second/2
	o.waits, o.pause, o.calm, o.flush, o.restarts = 2, 0, 0, 0, 1
}

func (o *options) check() error {
	for _, name := range o.only {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			return fmt.Errorf("--only %s: expected some of cost, load, idle, wait and restart", name)
		}
	}
	for name, n := range map[string]int{
		"services": o.services, "proxies": o.proxies, "turns": o.turns, "changes": o.changes, "rate": o.rate, "many": o.many,
		"many-services": o.manyServices, "load-turns": o.loadTurns, "waits": o.waits, "restarts": o.restarts,
	} {
		if n < 1 {
			return fmt.Errorf("--%s %d: expected at least 1", name, n)
		}
	}
	return nil
}
