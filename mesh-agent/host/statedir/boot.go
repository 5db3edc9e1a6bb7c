package statedir

import (
	"os"
	"strings"
)

// Boot returns the ID of this boot of the machine, or "" where the kernel has none. Process IDs,
// process start times and service health are meaningful only within one boot.
func Boot() string {
	content, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // a container may not have it, and does not outlive its machine
	return strings.TrimSpace(string(content))
}
