package seal

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
)

// Options name the source of the keys: a file, a passphrase or a KMS.
type Options struct {
	KeyFile        string
	PassphraseFile string
	Command        string // the command of a KMS
	OldKeyFile     string // keys that only open, while changing from a file to another source
}

// Flags declares the flags.
func (o *Options) Flags(f *pflag.FlagSet) {
	f.StringVar(&o.KeyFile, "secrets-key-file", "", "file with the key that secrets are encrypted with before they come to the database, "+
		"as mcp-server secrets key makes it; further lines have older keys")
	f.StringVar(&o.PassphraseFile, "secrets-passphrase-file", "", "file with a passphrase that the key is made of, in place of --secrets-key-file; further lines have older ones")
	f.StringVar(&o.Command, "secrets-kms-command", "", "command of a KMS that encrypts the key, in place of --secrets-key-file: it is run, without a shell, with encrypt or decrypt "+
		"as its last argument, reads from its input and writes to its output; words are separated by spaces")
	f.StringVar(&o.OldKeyFile, "old-secrets-key-file", "", "with --secrets-passphrase-file or --secrets-kms-command: file with the keys that were used before; they only decrypt")
}

// Given reports whether there is a source of keys.
func (o *Options) Given() bool { return o.KeyFile != "" || o.PassphraseFile != "" || o.Command != "" }

// Unlocked reports whether the keys are stored in the database, and have to be unlocked.
func (o *Options) Unlocked() bool { return o.PassphraseFile != "" || o.Command != "" }

// ErrNone says that keys are needed and there are none.
var ErrNone = errors.New("there is no key to encrypt with: make one, " +
	"(umask 077; mcp-server secrets key > secrets.key), and give --secrets-key-file secrets.key to all servers of the mesh; or give --secrets-passphrase-file or --secrets-kms-command")

// Load reads the keys; None if the options name no source. Keys of a passphrase or a KMS then need
// Unlock.
func (o *Options) Load() (*Keys, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	switch {
	case o.KeyFile != "":
		keys, err := Load(o.KeyFile)
		return keys, flagged("--secrets-key-file", err)
	case o.PassphraseFile != "":
		source, err := loadPassphrases(o.PassphraseFile)
		if err != nil {
			return nil, flagged("--secrets-passphrase-file", err)
		}
		return o.unlockable(source)
	case o.Command != "":
		source, err := newCommand(o.Command)
		if err != nil {
			return nil, flagged("--secrets-kms-command", err)
		}
		return o.unlockable(source)
	}
	return None, nil
}

func (o *Options) check() error {
	given := 0
	for _, one := range []string{o.KeyFile, o.PassphraseFile, o.Command} {
		if one != "" {
			given++
		}
	}
	switch {
	case given > 1:
		return errors.New("--secrets-key-file, --secrets-passphrase-file and --secrets-kms-command exclude each other: there is one key that encrypts. " +
			"To change from a file to one of the others give the file as --old-secrets-key-file, and run mcp-server secrets seal")
	case o.OldKeyFile != "" && o.PassphraseFile == "" && o.Command == "":
		return errors.New("--old-secrets-key-file is for the way from a file to --secrets-passphrase-file or --secrets-kms-command: give one of these. " +
			"Older keys of --secrets-key-file are further lines of that file")
	}
	return nil
}

func (o *Options) unlockable(from source) (*Keys, error) {
	k := &Keys{source: from}
	if o.OldKeyFile != "" {
		old, err := Load(o.OldKeyFile)
		if err != nil {
			return nil, flagged("--old-secrets-key-file", err)
		}
		k.old = old.all()
	}
	return k, nil
}

func flagged(flag string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}
