package machine_test

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/bench/machine"
)

func TestProcess(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc, and without it machine is to read nothing")
	}
	before := machine.OwnCPU()
	for machine.OwnCPU() < before+50*time.Millisecond { //nolint:revive // the time is to pass at work
	}
	require.InDelta(t, machine.OwnCPU(), machine.CPUOf(os.Getpid()), float64(100*time.Millisecond))

	require.LessOrEqual(t, machine.MainThreadCPUOf(os.Getpid()), machine.CPUOf(os.Getpid()))

	m := machine.MemoryOf(os.Getpid())
	require.Positive(t, m.Now)
	require.GreaterOrEqual(t, m.Peak, m.Now)
	require.Positive(t, machine.ProportionalOf(os.Getpid()))
	require.LessOrEqual(t, machine.ProportionalOf(os.Getpid()), machine.MemoryOf(os.Getpid()).Peak)
	require.Zero(t, machine.MemoryOf(-1))
	require.Zero(t, machine.ProportionalOf(-1))
	require.Zero(t, machine.CPUOf(-1))
}

func TestUse(t *testing.T) {
	t.Parallel()
	require.Equal(t, "unknown", machine.Now().Since(machine.Now()).String())
	require.Equal(t, "processors 50% busy, 8% taken away by the host", machine.Use{Busy: 50, Stolen: 8}.String())
}
