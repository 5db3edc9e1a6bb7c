package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Children returns the live child processes that the main thread of a process has started. It works
// on Linux only; elsewhere it returns none.
func Children(pid int) (children []int) {
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for field := range strings.FieldsSeq(string(content)) {
		if child, err := strconv.Atoi(field); err == nil {
			children = append(children, child)
		}
	}
	return children
}
