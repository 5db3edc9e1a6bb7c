package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Children are the processes that the first thread of one has started and that still live, as Linux tells. Elsewhere there are none to be known.
func Children(pid int) (children []int) {
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for field := range strings.FieldsSeq(string(content)) {
		if child, err := strconv.Atoi(field); err == nil {
			children = append(children, child)
		}
	}
	return children
}
