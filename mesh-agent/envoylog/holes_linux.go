package envoylog

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// block is that of a file system, or larger: room is given back in whole ones.
const block = 64 << 10

// punch makes a hole of what is between two places, and of the block that the first is in, which is a hole as far as that.
func punch(f *os.File, from, to int64) bool {
	from -= from % block
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from) == nil
}

// firstData is a place with nothing but zeros before it.
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
