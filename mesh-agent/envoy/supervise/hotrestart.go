package supervise

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Envoy's hot restart: a new Envoy, of the next epoch, takes over the open ports from its parent,
// which keeps its connections. The two find each other by a base ID, which is part of the names of
// abstract sockets and of a shared memory segment.

const (
	sharedMemory = "/dev/shm"

	// baseIDs bounds base IDs. Envoy multiplies one by ten to distinguish the sockets of different
	// epochs.
	baseIDs = 1 << 28

	// sharedSize and sharedVersion are the first fields of Envoy's struct SharedMemory, and
	// sharedFlags is the offset of its flags. The values hold for Envoy 1.12 to 1.40.
	sharedSize, sharedVersion, sharedFlags = 104, 11, 96

	// versionTimeout bounds a run of envoy --hot-restart-version.
	versionTimeout = 10 * time.Second
)

// checkHotRestart returns an error if hot restart cannot work on this machine.
func checkHotRestart() error {
	if runtime.GOOS != "linux" {
		return errors.New("it needs Linux")
	}
	probe, err := os.CreateTemp(sharedMemory, "mesh-agent-*")
	if err != nil {
		return fmt.Errorf("there is no shared memory: %w", err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

func sharedFile(baseID uint32) string {
	return fmt.Sprintf("%s/envoy_shared_memory_%d", sharedMemory, uint64(baseID)*10)
}

// freeBaseID returns a base ID without shared memory of a running or a dead Envoy.
func freeBaseID() uint32 {
	for {
		id := 1 + rand.Uint32N(baseIDs)
		if _, err := os.Stat(sharedFile(id)); errors.Is(err, os.ErrNotExist) {
			return id
		}
	}
}

// removeSharedMemory removes the segment that Envoy leaves behind even when it ends normally.
func removeSharedMemory(id uint32) {
	if id != 0 {
		_ = os.Remove(sharedFile(id))
	}
}

// clearStartingFlag lets an Envoy start beside its parent after the last child died while starting.
// Only that child would have cleared its flag in the shared memory, and while the flag is set any
// further child exits at once.
func clearStartingFlag(baseID uint32) error {
	file, err := os.OpenFile(sharedFile(baseID), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	content := make([]byte, sharedSize+1)
	n, _ := file.ReadAt(content, 0)
	if n != sharedSize || binary.NativeEndian.Uint64(content) != sharedSize || binary.NativeEndian.Uint64(content[8:]) != sharedVersion {
		return errors.New("the shared memory is of an Envoy that is not known here")
	}
	_, err = file.WriteAt(make([]byte, 8), sharedFlags)
	return err
}

// hotRestartVersion returns what a program says that it can hot restart with.
func hotRestartVersion(ctx context.Context, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	output, err := exec.CommandContext(ctx, program, "--hot-restart-version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --hot-restart-version: %w", program, err)
	}
	return strings.TrimSpace(string(output)), nil
}

// hotRestartArgs returns the arguments for an Envoy of an epoch.
func hotRestartArgs(r record, parentShutdown time.Duration) []string {
	if !r.Hot {
		return []string{"--disable-hot-restart"}
	}
	return []string{
		"--base-id", strconv.FormatUint(uint64(r.BaseID), 10), "--restart-epoch", strconv.Itoa(r.Epoch),
		"--parent-shutdown-time-s", strconv.Itoa(int(parentShutdown.Seconds())),
		// The parent's statistics would be added to the child's, gauges of open connections too,
		// and a drain would wait for those to close.
		"--skip-hot-restart-parent-stats",
	}
}
