package check

import "golang.org/x/sys/unix"

// unsynchronized is TIME_ERROR, the kernel's state when its clock has not been set lately.
const unsynchronized = 5

// Synchronized reports whether the kernel's clock is kept synchronized.
func Synchronized() (bool, error) {
	state, err := unix.Adjtimex(&unix.Timex{})
	return state != unsynchronized, err
}
