package register

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/replace"
)

// sinceClock gives each stream a later time than the last, also across restarts of the agent.
type sinceClock struct {
	folder string
	last   int64
}

// sinceFile is the name of the file in the state folder.
const sinceFile = "registered"

// next returns the present time, or one just after the last stream's if the clock was set back.
func (s *sinceClock) next() (time.Time, error) {
	s.last = max(time.Now().UnixNano(), max(s.last, s.saved())+1)
	if s.folder != "" {
		if err := replace.File(s.path(), []byte(strconv.FormatInt(s.last, 10)+"\n")); err != nil {
			return time.Unix(0, s.last), fmt.Errorf("keep when this machine was registered last: %w", err)
		}
	}
	return time.Unix(0, s.last), nil
}

func (s *sinceClock) path() string { return filepath.Join(s.folder, sinceFile) }

// saved returns the time in the file, or 0 if it cannot be read.
func (s *sinceClock) saved() int64 {
	if s.folder == "" {
		return 0
	}
	content, _ := os.ReadFile(s.path())
	last, _ := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	return last
}
