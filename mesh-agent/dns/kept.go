package dns

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"

	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/replace"
	"github.com/pgmesh/pgmesh/mesh-agent/dns/names"
	ndsv1 "github.com/pgmesh/pgmesh/proto/istio/networking/nds/v1"
)

// loadKept begins with the names that there were last, as Envoy begins with its last configuration, until discovery says what there are.
func (s *Server) loadKept() {
	if s.Kept == "" {
		return
	}
	content, err := os.ReadFile(s.Kept)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	table := &ndsv1.NameTable{}
	if err == nil {
		err = readKept(content, table)
	}
	if err != nil {
		s.Log.Warn("the names that the mesh had last cannot be read; they come with the first word from discovery", "error", err)
		return
	}
	now := *s.current.Load()
	now.table, now.names = table, names.New(table, s.asked(now.from))
	s.current.Store(&now)
	s.Log.Info("answering for the names that the mesh had last, until discovery says what it has now", "names", now.names.Len())
}

var errKept = errors.New("it is damaged")

// readKept takes a checksum and what it is of.
func readKept(content []byte, into *ndsv1.NameTable) error {
	if len(content) < sha256.Size || [sha256.Size]byte(content) != sha256.Sum256(content[sha256.Size:]) {
		return errKept
	}
	return proto.Unmarshal(content[sha256.Size:], into)
}

// keep writes the names for the next start. It is called now and then, so that a mesh that changes quickly costs the disk little.
func (s *Server) keep() {
	now := s.current.Load()
	if s.Kept == "" || !now.known || s.written == now.table {
		return
	}
	s.written = now.table
	content, err := proto.Marshal(now.table)
	if err == nil {
		sum := sha256.Sum256(content)
		err = replace.File(s.Kept, append(sum[:], content...))
	}
	if err != nil {
		s.Log.Warn("the names of the mesh cannot be kept for the agent's next start", "error", err)
	}
}
