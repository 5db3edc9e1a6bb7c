package seal

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/argon2"
)

// passphrases are the lines of a file. The first makes the key that seals; the others make keys
// that only open.
type passphrases []string

// minPassphrase is the least length in characters, because whoever steals the database can try
// passphrases offline.
const minPassphrase = 16

func loadPassphrases(path string) (passphrases, error) {
	content, err := readOwn(path)
	if err != nil {
		return nil, err
	}
	var found passphrases
	for number, line := range keyLines(string(content)) {
		if len([]rune(line)) < minPassphrase {
			return nil, fmt.Errorf("%s: the passphrase in line %d is shorter than %d characters: choose five words or more, or make one with openssl rand -base64 24", path, number, minPassphrase)
		}
		found = append(found, line)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: there is no passphrase in it", path)
	}
	return found, nil
}

// The parameters of Argon2id, which derives keys from passphrases: the second recommended option of
// RFC 9106, section 4. The stored form has them, so they may change for new keys.
const (
	argonTime    = 3
	argonMemory  = 64 << 10 // KiB
	argonThreads = 4
	saltSize     = 16
)

// argonPrefix begins the stored form of a key that is derived from a passphrase.
const argonPrefix = "argon2id:"

type argon struct {
	time, memory uint32
	threads      uint8
	salt         []byte
}

func (a argon) String() string {
	return fmt.Sprintf("%st=%d,m=%d,p=%d:%s", argonPrefix, a.time, a.memory, a.threads, base64.StdEncoding.EncodeToString(a.salt))
}

// parseArgon parses the stored form. It refuses unreasonable parameters, which anybody with access
// to the table may have written.
func parseArgon(text string) (a argon, err error) {
	numbers, salt, _ := strings.Cut(strings.TrimPrefix(text, argonPrefix), ":")
	if _, err := fmt.Sscanf(numbers, "t=%d,m=%d,p=%d", &a.time, &a.memory, &a.threads); err != nil {
		return a, errWrapped
	}
	a.salt, err = base64.StdEncoding.DecodeString(salt)
	if err != nil || len(a.salt) < saltSize || len(a.salt) > 64 ||
		a.time < 1 || a.time > 16 || a.memory < 8<<10 || a.memory > 1<<20 || a.threads < 1 || a.threads > 16 {
		return a, errWrapped
	}
	return a, nil
}

func (a argon) key(passphrase string) []byte {
	return argon2.IDKey([]byte(passphrase), a.salt, a.time, a.memory, a.threads, KeySize)
}

func (p passphrases) unlock(_ context.Context, kept []Wrapped) (found []*key, err error) {
	for i, passphrase := range p {
		for _, w := range slices.Backward(kept) { // newest first, so that the newest seals
			if !strings.HasPrefix(w.Text, argonPrefix) {
				continue
			}
			how, err := parseArgon(w.Text)
			if err != nil {
				return nil, err
			}
			if k, err := checkedKey(w, how.key(passphrase)); err == nil {
				k.first = i == 0
				found = append(found, k)
			}
		}
	}
	return found, nil
}

func (p passphrases) canSeal(keys []*key) bool { return len(keys) > 0 && keys[0].first }

func (p passphrases) wrap(context.Context) (Wrapped, error) {
	how := argon{argonTime, argonMemory, argonThreads, make([]byte, saltSize)}
	_, _ = rand.Read(how.salt)
	k, err := newKey(how.key(p[0]))
	if err != nil {
		return Wrapped{}, err
	}
	return Wrapped{k.id, how.String()}, nil
}
