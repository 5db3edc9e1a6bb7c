package serve

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pgmesh/pgmesh/internal/kit/replace"
	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/secrets"
)

// Keys that have to be unlocked are stored in the database, and saved in the state folder for a
// server that starts while the database is away. A relay has only that file.

const sealingFile = "mcp-server.sealing"

// SealingKeys stores keys in the database.
type SealingKeys struct{ Store *store.Store }

// Keys implements [seal.KeyStore].
func (k SealingKeys) Keys(ctx context.Context) ([]seal.Wrapped, error) {
	rows, err := secrets.New(k.Store).SealingKeys(ctx)
	kept := make([]seal.Wrapped, len(rows))
	for i, row := range rows {
		kept[i] = seal.Wrapped{ID: row.ID, Text: row.Wrapped}
	}
	return kept, err
}

// Add implements [seal.KeyStore].
func (k SealingKeys) Add(ctx context.Context, w seal.Wrapped, known int) (bool, error) {
	return secrets.New(k.Store).AddSealingKey(ctx, secrets.SealingKey{ID: w.ID, Wrapped: w.Text}, known)
}

// sealingState stores keys in the state folder.
type sealingState struct{ folder string }

func (s sealingState) path() string { return filepath.Join(s.folder, sealingFile) }

func (s sealingState) Keys(context.Context) (kept []seal.Wrapped, err error) {
	if s.folder == "" {
		return nil, nil
	}
	content, err := os.ReadFile(s.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &kept)
	}
	return kept, err
}

func (s sealingState) Add(ctx context.Context, w seal.Wrapped, _ int) (bool, error) {
	kept, err := s.Keys(ctx)
	if err != nil {
		return false, err
	}
	return true, s.replace(append(kept, w))
}

func (s sealingState) replace(kept []seal.Wrapped) error {
	if s.folder == "" {
		return nil
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	return replace.File(s.path(), append(text, '\n'))
}

// recallKeys unlocks the keys saved in the state folder. If that fails, the saved secrets stay
// closed until the database answers.
func (s *server) recallKeys(ctx context.Context) {
	state := sealingState{s.options.StateDir}
	kept, err := state.Keys(ctx)
	if err == nil {
		err = s.keys.Take(ctx, kept)
	}
	if err != nil {
		s.options.Log.Warn("cannot use the keys for secrets that were saved: what is saved of secrets stays closed until the database tells of them", "file", state.path(), "error", err)
	}
}

// unlockKeys unlocks the keys in the database, and saves them.
func (d *database) unlockKeys(ctx context.Context) error {
	in := SealingKeys{d.store}
	if err := d.keys.Unlock(ctx, in); err != nil || !d.options.Sealing.Unlocked() {
		return err
	}
	kept, err := in.Keys(ctx)
	if err == nil {
		err = sealingState{d.options.StateDir}.replace(kept)
	}
	return err
}
