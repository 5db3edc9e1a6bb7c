package membership

import (
	"crypto"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/internal/kit/replace"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// The files in the folder. Certificate and key share one file, so that they always match.
const (
	identityFile = "identity.pem"
	trustFile    = "trust.json"
	joiningFile  = "joining-key.pem" // of an attempt to join that has no answer yet
)

// folder stores a membership on disk; an empty one stores nothing.
type folder string

func (f folder) path(file string) string { return filepath.Join(string(f), file) }

func (f folder) prepare() error {
	if f == "" {
		return nil
	}
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return fmt.Errorf("make the folder for the certificate: %w", err)
	}
	return f.check()
}

// check refuses a folder that is not safe for a key. Who only reads needs none, and makes none.
func (f folder) check() error {
	info, err := os.Stat(string(f))
	if f == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s: others than its owner may change what is in it (%s), and a key is to be kept there: chmod 700 %[1]s", f, info.Mode().Perm())
	}
	return nil
}

// read loads the stored membership.
func (f folder) read() (chain []byte, key crypto.Signer, trust *Trust, err error) {
	if f == "" {
		return nil, nil, nil, ErrNone
	}
	chain, err = f.private(identityFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil, fmt.Errorf("%w: %s does not exist", ErrNone, f.path(identityFile))
	}
	if err != nil {
		return nil, nil, nil, err
	}
	if key, err = authority.ParseKey(chain); err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w; remove it, and join again", f.path(identityFile), err)
	}
	content, err := os.ReadFile(f.path(trustFile))
	if err != nil {
		return nil, nil, nil, fmt.Errorf("whom to trust is lost: %w; remove %s, and join again", err, identityFile)
	}
	message := &identityv1.Trust{}
	if err = (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(content, message); err == nil {
		trust, err = ParseTrust(message)
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s cannot be read: %w; remove it and %s, and join again", f.path(trustFile), err, identityFile)
	}
	return chain, key, trust, nil
}

// private reads a file that only its owner may access, and refuses it otherwise.
func (f folder) private(file string) ([]byte, error) {
	info, err := os.Stat(f.path(file))
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s: others than its owner may read or write it (%s): chmod 600 it, if nobody can have read the key; else remove it and join again",
			f.path(file), info.Mode().Perm())
	}
	return os.ReadFile(f.path(file))
}

// write stores a state. It writes the trust first: after a crash in between, the member has the new
// trust and its old certificate.
func (f folder) write(s *State) error {
	if f == "" {
		return nil
	}
	if err := f.writeTrust(s.Trust); err != nil {
		return err
	}
	key, err := s.KeyPEM()
	if err != nil {
		return err
	}
	return f.put(identityFile, append(key, s.ChainPEM()...))
}

func (f folder) writeTrust(t *Trust) error {
	if f == "" {
		return nil
	}
	content, err := protojson.MarshalOptions{Multiline: true}.Marshal(t.message)
	if err != nil {
		return err
	}
	return f.put(trustFile, append(content, '\n'))
}

// joiningKey returns the key of an earlier attempt to join, or creates and stores a new one.
func (f folder) joiningKey() (crypto.Signer, error) {
	if f == "" {
		return authority.NewKey()
	}
	if text, err := f.private(joiningFile); err == nil {
		if key, err := authority.ParseKey(text); err == nil {
			return key, nil
		}
	}
	key, err := authority.NewKey()
	if err != nil {
		return nil, err
	}
	text, err := authority.EncodeKey(key)
	if err != nil {
		return nil, err
	}
	return key, f.put(joiningFile, text)
}

func (f folder) forgetJoiningKey() {
	if f != "" {
		_ = os.Remove(f.path(joiningFile)) // if this fails, the next attempt to join uses the key again, which does no harm
	}
}

// put replaces a file atomically, also across a crash.
func (f folder) put(file string, content []byte) error {
	if err := replace.File(f.path(file), content); err != nil {
		return fmt.Errorf("keep %s: %w", f.path(file), err)
	}
	return nil
}
