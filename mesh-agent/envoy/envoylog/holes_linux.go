package envoylog

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// block is at least the block size of any file system: only whole blocks are freed.
const block = 64 << 10

// punch frees the range, starting at the beginning of from's block, whose first part was freed
// before. It reports success.
func punch(f *os.File, from, to int64) bool {
	from -= from % block
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from) == nil
}

// firstData returns an offset with nothing but zeros before it.
func firstData(f *os.File, size int64) int64 {
	at, err := unix.Seek(int(f.Fd()), 0, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return size
	}
	if err != nil {
		return 0
	}
	return at
}
