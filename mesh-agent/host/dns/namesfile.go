package dns

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"

	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/kit/replace"
	"github.com/pgmesh/pgmesh/mesh-agent/host/dns/names"
	ndsv1 "github.com/pgmesh/pgmesh/proto/istio/networking/nds/v1"
)

// loadNames loads the names of the last run, which are used until discovery sends new ones.
func (s *Server) loadNames() {
	if s.NamesFile == "" {
		return
	}
	content, err := os.ReadFile(s.NamesFile)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	table := &ndsv1.NameTable{}
	if err == nil {
		err = decodeNames(content, table)
	}
	if err != nil {
		s.Log.Warn("the saved names of the mesh cannot be read; discovery will send them", "error", err)
		return
	}
	now := *s.current.Load()
	now.table, now.names = table, names.New(table, s.nameOptions(now.machine))
	s.current.Store(&now)
	s.Log.Info("answering for the names that the mesh had last, until discovery says what it has now", "names", now.names.Len())
}

var errDamaged = errors.New("it is damaged")

// decodeNames decodes a checksum and the table that it covers.
func decodeNames(content []byte, into *ndsv1.NameTable) error {
	if len(content) < sha256.Size || [sha256.Size]byte(content) != sha256.Sum256(content[sha256.Size:]) {
		return errDamaged
	}
	return proto.Unmarshal(content[sha256.Size:], into)
}

// saveNames saves the names for the next start. It is called at intervals, so that quick changes
// cost few writes.
func (s *Server) saveNames() {
	now := s.current.Load()
	if s.NamesFile == "" || !now.known || s.savedTable == now.table {
		return
	}
	s.savedTable = now.table
	content, err := proto.Marshal(now.table)
	if err == nil {
		sum := sha256.Sum256(content)
		err = replace.File(s.NamesFile, append(sum[:], content...))
	}
	if err != nil {
		s.Log.Warn("the names of the mesh cannot be kept for the agent's next start", "error", err)
	}
}
