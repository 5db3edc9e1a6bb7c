package check

import "golang.org/x/sys/unix"

// unsynchronized is what the kernel answers when nobody has set its clock of late: TIME_ERROR.
const unsynchronized = 5

// Synchronized tells whether somebody keeps the kernel's clock right.
func Synchronized() (bool, error) {
	state, err := unix.Adjtimex(&unix.Timex{})
	return state != unsynchronized, err
}
