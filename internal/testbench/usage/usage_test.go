package usage_test

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

func TestProcess(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc, and without it machine is to read nothing")
	}
	before := usage.OwnCPU()
	for usage.OwnCPU() < before+50*time.Millisecond { //nolint:revive // the time is to pass at work
	}
	require.InDelta(t, usage.OwnCPU(), usage.CPUOf(os.Getpid()), float64(100*time.Millisecond))

	require.LessOrEqual(t, usage.MainThreadCPUOf(os.Getpid()), usage.CPUOf(os.Getpid()))

	m := usage.MemoryOf(os.Getpid())
	require.Positive(t, m.Now)
	require.GreaterOrEqual(t, m.Peak, m.Now)
	require.Positive(t, usage.ProportionalOf(os.Getpid()))
	require.LessOrEqual(t, usage.ProportionalOf(os.Getpid()), usage.MemoryOf(os.Getpid()).Peak)
	require.Zero(t, usage.MemoryOf(-1))
	require.Zero(t, usage.ProportionalOf(-1))
	require.Zero(t, usage.CPUOf(-1))
}

func TestUse(t *testing.T) {
	t.Parallel()
	now := usage.Now() // one reading: between two a tick may pass
	require.Equal(t, "unknown", now.Since(now).String())
	require.Equal(t, "processors 50% busy, 8% taken away by the host", usage.Use{Busy: 50, Stolen: 8}.String())
}
