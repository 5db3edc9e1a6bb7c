package attack

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/stack"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

// memory is the most that a program may have in RAM, in MiB, whatever others do.
type memory struct {
	program *stack.Program
	limit   int64
}

// keepsBelow starts to watch programs. The function that it returns fails the test unless each
// stayed below its limit.
func keepsBelow(t testing.TB, programs ...memory) (check func()) {
	t.Helper()
	for _, p := range programs {
		require.NoError(t, usage.ForgetPeak(p.program.Pid()))
	}
	return func() {
		t.Helper()
		for _, p := range programs {
			peak := usage.MemoryOf(p.program.Pid()).Peak >> 20
			t.Logf("a program that may have %d MiB had %d MiB at most", p.limit, peak)
			require.LessOrEqual(t, peak, p.limit, "MiB at most")
		}
	}
}
