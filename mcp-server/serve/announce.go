package serve

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/mcp-server/announce"
	"github.com/pgmesh/pgmesh/registry/open"
)

// Announce says in which registries services of the mesh are announced.
type Announce struct{ URLs []string }

// Flags declares the flags.
func (a *Announce) Flags(f *pflag.FlagSet) {
	f.StringArrayVar(&a.URLs, "announce", nil,
		"URL of a registry in which services of the mesh are announced, so that those outside find them, such as consul://127.0.0.1:8500; can be repeated. The annotation pgmesh.io/announce says which services")
}

// openAnnouncers opens what announces services.
func (s *server) openAnnouncers() error {
	o := s.options
	if len(o.Announce.URLs) == 0 {
		return nil
	}
	opened, err := open.Announcers(o.Announce.URLs, reload.Options{What: "file of a registry", Log: o.Log})
	if err != nil {
		return fmt.Errorf("--announce: %w", err)
	}
	s.announced = announce.New(s.publisher, o.Log, s.metrics, opened)
	return nil
}

func (s *server) aboutAnnouncements() string {
	if s.announced == nil {
		return ""
	}
	return s.announced.About()
}
