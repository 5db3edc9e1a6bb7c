package trust

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/internal/kit/replace"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// The files that survive a restart. The authority's key, certificate and intermediates are in one
// file, so that they always fit together.
const (
	authorityFile = "authority.pem"
	trustFile     = "told.json"
)

// readFolder takes over what was kept. What cannot be used is asked for again.
func (k *Keeper) readFolder() {
	if k.options.Folder == "" {
		return
	}
	if err := os.MkdirAll(k.options.Folder, 0o700); err != nil {
		k.log.Error("what is known cannot be kept for the next start", "error", err)
	}
	if k.options.Membership == nil {
		k.readTold()
	}
	if k.options.Own != nil {
		return
	}
	text, err := os.ReadFile(filepath.Join(k.options.Folder, authorityFile))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var a *authority.Authority
	if err == nil {
		a, err = authority.Load(text, text, k.roots())
	}
	if err != nil {
		k.log.Warn("the authority of before the start cannot be used; another is asked for", "folder", k.options.Folder, "error", err)
		return
	}
	k.take(a)
}

// readTold takes over what mcp-server last told before the start.
func (k *Keeper) readTold() {
	text, err := os.ReadFile(filepath.Join(k.options.Folder, trustFile))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	told := &identityv1.Trust{}
	if err == nil {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, told)
	}
	if err != nil {
		k.log.Warn("what the mesh trusted before the start cannot be read", "folder", k.options.Folder, "error", err)
		return
	}
	k.told = told
}

// roots are those that are known before anything else is.
func (k *Keeper) roots() []byte {
	if k.options.Membership != nil {
		return authority.EncodeCertificates(k.options.Membership.Current().Trust.Roots...)
	}
	return k.options.Roots()
}

func (k *Keeper) writeAuthority(a *authority.Authority) error {
	key, err := a.KeyPEM()
	if err != nil {
		return err
	}
	return k.write(authorityFile, append(key, a.ChainPEM()...))
}

func (k *Keeper) writeTrust(told *identityv1.Trust) error {
	text, err := protojson.Marshal(told)
	if err != nil {
		return err
	}
	return k.write(trustFile, text)
}

// write replaces a whole file. Only its owner may read it.
func (k *Keeper) write(name string, content []byte) error {
	if k.options.Folder == "" {
		return nil
	}
	return replace.File(filepath.Join(k.options.Folder, name), content)
}
