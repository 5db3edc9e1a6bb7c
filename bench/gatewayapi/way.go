package main

import (
	"fmt"
	"io"
	"time"

	"github.com/pgmesh/pgmesh/bench/host"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// way is a way to write routes.
type way struct {
	name     string
	statuses bool // have to be written where the routes are
	aims     aims
}

// aims are what is to be reached; 0 where nothing is.
type aims struct {
	mean, most, status time.Duration
	floor              string // what the floor is
}

var ways = []way{
	{name: "rows", aims: aims{mean: 12 * time.Millisecond, most: 75 * time.Millisecond, status: time.Second, floor: "another session is notified of a row"}},
	{name: "kubernetes", aims: aims{mean: 25 * time.Millisecond, status: 2 * time.Second, floor: "a watch of its own is told"}},
}

func names() (all []string) {
	for _, w := range ways {
		all = append(all, w.name)
	}
	return all
}

func (w way) start(h *host.Host, bin, dir string) (origin, *stack.Stack, error) {
	if w.name == "rows" {
		return startRows(h, bin, dir)
	}
	c, s, err := startCluster(h, bin, dir, w.statuses)
	return c, s, err
}

// meets says whether an aim is met, if there is one.
func (a aims) meets(out io.Writer, what string, is, atMost time.Duration) {
	if atMost > 0 {
		a.verdict(out, fmt.Sprintf("%s at most %s", what, atMost), is <= atMost)
	}
}

func (aims) verdict(out io.Writer, aim string, met bool) {
	fmt.Fprintf(out, "  aim: %s: %s\n", aim, map[bool]string{true: "met", false: "MISSED"}[met])
}
