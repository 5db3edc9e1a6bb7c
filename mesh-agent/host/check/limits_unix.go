//go:build unix

package check

import "golang.org/x/sys/unix"

// OpenFiles returns how many files this process may have open.
func OpenFiles() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return limit.Max // Envoy and the agent raise the soft limit to it
}

// Free returns how many bytes this account may still write to a folder's file system.
func Free(folder string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}
