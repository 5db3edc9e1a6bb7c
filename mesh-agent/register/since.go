package register

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/internal/replace"
)

// since knows when the last stream was begun, in this life of the agent or another.
type since struct {
	folder string
	last   int64
}

// file is the name of the file in the state folder.
const file = "registered"

// next is now, or later if a stream was begun after that: somebody has set the clock back.
func (s *since) next() (time.Time, error) {
	s.last = max(time.Now().UnixNano(), max(s.last, s.kept())+1)
	if s.folder != "" {
		if err := replace.File(s.path(), []byte(strconv.FormatInt(s.last, 10)+"\n")); err != nil {
			return time.Unix(0, s.last), fmt.Errorf("keep when this machine was registered last: %w", err)
		}
	}
	return time.Unix(0, s.last), nil
}

func (s *since) path() string { return filepath.Join(s.folder, file) }

// kept is what is in the file. What nobody can read says as little as no file.
func (s *since) kept() int64 {
	if s.folder == "" {
		return 0
	}
	content, _ := os.ReadFile(s.path())
	last, _ := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	return last
}
