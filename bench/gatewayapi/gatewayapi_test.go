package main

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func quick() *options {
	var o options
	o.flags(pflag.NewFlagSet("gatewayapi", pflag.ContinueOnError))
	o.routes, o.batchRoutes, o.edits, o.largeRoutes, o.largeEdits = 3, 4, 3, 3, 2
	return &o
}

// A run with few of everything gets through as rows, loses no request, and an edit is one resource.
func TestQuickRun(t *testing.T) {
	t.Chdir("../..") // the programs are built from the other module
	o := quick()
	o.only = []string{"rows"}
	var out strings.Builder
	require.NoError(t, o.run(t.Context(), &out))
	for _, said := range []string{
		"rows: a new route, from when the origin has it", "the last 3", "floor of both: another session is notified of a row",
		"rows: 4 routes are written within", "rows: 3 edits of one route", "aim: no request fails, and both backends answer: met",
		"rows: an edit of one of 3 routes", "1.00 {change=\"sent\"", "aim: an edit of one route costs one resource: met",
	} {
		require.Contains(t, out.String(), said)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	require.NoError(t, quick().check())
	for said, change := range map[string]func(*options){
		"--only files":  func(o *options) { o.only = []string{"files"} },
		"--tests speed": func(o *options) { o.tests = []string{"speed"} },
		"--routes":      func(o *options) { o.routes = 0 },
		"--large-edits": func(o *options) { o.largeEdits = 4 },
	} {
		o := quick()
		change(o)
		require.ErrorContains(t, o.check(), said)
	}
}

func TestMean(t *testing.T) {
	t.Parallel()
	require.Zero(t, mean(nil))
	require.Equal(t, 2*time.Second, mean([]time.Duration{time.Second, 3 * time.Second}))
}
