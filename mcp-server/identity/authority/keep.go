package authority

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pgmesh/pgmesh/internal/kit/replace"
	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
	"github.com/pgmesh/pgmesh/store/identity/trust"
)

// File is the name of the saved state in the state folder. The whole file is sealed, and the
// authority's key within it once more. A server without keys has its authority in files, and saves
// nothing that others must not read.
const File = "mcp-server.authority"

// savedFile is the content of the file.
type savedFile struct {
	Places      []string         `json:"places"`
	Trust       json.RawMessage  `json:"trust"`
	Authorities []savedAuthority `json:"authorities"`
}

type savedAuthority struct {
	ID          int64                `json:"id"`
	State       trust.AuthorityState `json:"state"`
	Fingerprint string               `json:"fingerprint"`
	Chain       string               `json:"chain"`
	SealedKey   string               `json:"sealedKey"`
}

// filePlace binds the sealed content to this file.
var filePlace = seal.Place{Namespace: ":authority", Name: "state", Value: "saved"}

// save writes the file if the state differs from what it holds.
func (a *Authority) save(s *State) {
	if a.cfg.StateDir == "" {
		return
	}
	text, err := a.encode(s)
	if err != nil || text == a.savedText {
		return
	}
	content := text
	if a.cfg.Keys.Can() {
		content = a.cfg.Keys.Seal(filePlace, []byte(text))
	}
	if err := replace.File(filepath.Join(a.cfg.StateDir, File), []byte(content+"\n")); err != nil {
		a.cfg.Log.Error("cannot save what is known of the authority: a server that starts while the database is away will let nobody in", "error", err)
		return
	}
	a.savedText = text
}

func (a *Authority) encode(s *State) (string, error) {
	trust, err := protojson.Marshal(s.trust)
	if err != nil {
		return "", err
	}
	k := savedFile{Places: a.cfg.Places, Trust: trust}
	for _, row := range s.rows {
		k.Authorities = append(k.Authorities, savedAuthority{row.ID, row.State, row.Fingerprint, string(row.Chain), row.SealedKey})
	}
	text, err := json.Marshal(k)
	return string(text), err
}

// Recall restores the saved state while the database does not answer, and reports whether there was
// one.
func (a *Authority) Recall(ctx context.Context) (bool, error) {
	if a.cfg.StateDir == "" || a.Current() != nil {
		return false, nil
	}
	content, err := os.ReadFile(filepath.Join(a.cfg.StateDir, File))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	text := bytes.TrimSpace(content)
	if a.cfg.Keys != seal.None {
		if text, err = a.cfg.Keys.Open(filePlace, string(text)); err != nil {
			return false, err
		}
	}
	var k savedFile
	if err := json.Unmarshal(text, &k); err != nil {
		return false, err
	}
	if !slices.ContainsFunc(k.Places, func(p string) bool { return slices.Contains(a.cfg.Places, p) }) {
		return false, fmt.Errorf("it is from %v, and this server reads from %v", k.Places, a.cfg.Places)
	}
	state, err := a.decode(k)
	if err == nil {
		err = a.setState(ctx, state)
	}
	return err == nil, err
}

func (a *Authority) decode(k savedFile) (*State, error) {
	kept := &identityv1.Trust{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(k.Trust, kept); err != nil {
		return nil, err
	}
	var rows []trust.Authority
	for _, row := range k.Authorities {
		rows = append(rows, trust.Authority{ID: row.ID, State: row.State, Fingerprint: row.Fingerprint, Chain: []byte(row.Chain), SealedKey: row.SealedKey})
	}
	return a.stateOf(kept, rows)
}
