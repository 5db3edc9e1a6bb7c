package statedir

import (
	"os"
	"strings"
)

// Boot is the machine's present life, which numbers and times of processes are of, and how its services are. It is empty where the kernel does
// not say.
func Boot() string {
	content, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // a container may not have it, and does not outlive its machine
	return strings.TrimSpace(string(content))
}
