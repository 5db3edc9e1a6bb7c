package freeport_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/freeport"
)

// beAnother makes this test binary a second process that takes ports and holds them until its
// standard input ends.
const beAnother = "FREEPORT_TEST_BE_ANOTHER"

const many = 300 // of 12,768: without reservations, all but one of a million runs would give some port twice

func TestMain(m *testing.M) {
	if os.Getenv(beAnother) == "" {
		os.Exit(m.Run())
	}
	for range many {
		port, err := freeport.New()
		if err != nil {
			panic(err)
		}
		os.Stdout.WriteString(strconv.Itoa(port) + "\n")
	}
	os.Stdout.Close()
	_, _ = os.Stdin.Read(make([]byte, 1))
}

func TestNoPortIsGivenTwice(t *testing.T) {
	t.Parallel()
	another := exec.Command(os.Args[0])
	another.Env = append(os.Environ(), beAnother+"=yes")
	hold, err := another.StdinPipe()
	require.NoError(t, err)
	output := &strings.Builder{}
	another.Stdout = output
	require.NoError(t, another.Start())

	given := map[string]bool{}
	for range many {
		port, err := freeport.New()
		require.NoError(t, err)
		given[strconv.Itoa(port)] = true
	}
	require.Len(t, given, many)
	require.NoError(t, hold.Close())
	require.NoError(t, another.Wait())
	theirs := strings.Fields(output.String())
	require.Len(t, theirs, many)
	for _, port := range theirs {
		require.False(t, given[port], port)
	}
}
