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

// Envoy's hot restart: a new Envoy, of the next epoch, takes the open ports over from its parent, which goes on with the connections that it has. The
// two find each other by a base id, which stands in the names of abstract sockets and of a piece of shared memory.

const (
	sharedMemory = "/dev/shm"

	// baseIDs is how many there are; Envoy multiplies one by ten, to tell the sockets of different epochs from each other.
	baseIDs = 1 << 28

	// sharedSize and sharedVersion are at the beginning of the shared memory, and the flags at its end: Envoy's SharedMemory, of 1.12 to 1.40.
	sharedSize, sharedVersion, sharedFlags = 104, 11, 96

	// versionWithin is how long a program may take to say what it is compatible with.
	versionWithin = 10 * time.Second
)

// cannotHotRestart says why Envoys cannot replace each other here without a pause, and is nil if they can.
func cannotHotRestart() error {
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

// freeBaseID is one that no Envoy has, nor had and left behind.
func freeBaseID() uint32 {
	for {
		id := 1 + rand.Uint32N(baseIDs)
		if _, err := os.Stat(sharedFile(id)); errors.Is(err, os.ErrNotExist) {
			return id
		}
	}
}

// forgetBaseID gives back what Envoys leave behind, also those that end in good order.
func forgetBaseID(id uint32) {
	if id != 0 {
		_ = os.Remove(sharedFile(id))
	}
}

// allowAnother lets an Envoy start beside its parent whose last child died while it started: the child's mark that it is starting, which only it
// would have taken away, is in the shared memory, and whoever comes after it ends at once.
func allowAnother(baseID uint32) error {
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

// compatibility is what a program says that it can restart hot with.
func compatibility(ctx context.Context, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionWithin)
	defer cancel()
	output, err := exec.CommandContext(ctx, program, "--hot-restart-version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --hot-restart-version: %w", program, err)
	}
	return strings.TrimSpace(string(output)), nil
}

// hotArgs are the arguments that make an Envoy of an epoch.
func hotArgs(r record, parentShutdown time.Duration) []string {
	if !r.Hot {
		return []string{"--disable-hot-restart"}
	}
	return []string{
		"--base-id", strconv.FormatUint(uint64(r.BaseID), 10), "--restart-epoch", strconv.Itoa(r.Epoch),
		"--parent-shutdown-time-s", strconv.Itoa(int(parentShutdown.Seconds())),
		// They would be added to the child's, also numbers of what is open, of which the agent would wait for the end.
		"--skip-hot-restart-parent-stats",
	}
}
