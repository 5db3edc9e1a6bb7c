package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/deploy/release/signing"
)

// options are the values of the flags.
type options struct {
	version, site, key, passphraseFile, url string
	arches, parts                           []string
}

func (o *options) declare(flags *pflag.FlagSet) {
	flags.StringVar(&o.version, "release", "", "version of the release (default: as deploy/packages/version says)")
	flags.StringVar(&o.site, "site", filepath.Join("dist", "release"), "folder to make it in; it may have earlier releases, which its repositories keep")
	flags.StringVar(&o.key, "key", "", "file with the armored OpenPGP key to sign with (default: one is made, which is not for publication)")
	flags.StringVar(&o.passphraseFile, "key-passphrase-file", "", "file with the passphrase of the key")
	flags.StringVar(&o.url, "url", "https://packages.example/pgmesh", "address at which the folder will be served, for the files by which apt and dnf know it")
	flags.StringSliceVar(&o.arches, "arches", []string{"amd64", "arm64"}, "architectures")
	flags.StringSliceVar(&o.parts, "parts", allParts, "what to make")
}

// complete finds out what is to be released, and gets the key.
func (o *options) complete(ctx context.Context, out io.Writer) (*release, error) {
	r := &release{options: o, out: out}
	root, err := ask(ctx, ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	r.root = root
	for _, path := range []*string{&o.site, &o.key, &o.passphraseFile} {
		if *path != "" {
			if *path, err = filepath.Abs(*path); err != nil {
				return nil, err
			}
		}
	}
	if err := r.readCommit(ctx); err != nil {
		return nil, err
	}
	if o.version, err = ask(ctx, root, "env", "VERSION="+o.version, filepath.Join("deploy", "packages", "version")); err != nil {
		return nil, err
	}
	if _, err := os.Stat(r.folder()); err == nil {
		return nil, fmt.Errorf("there is a release %s in %s already: choose another VERSION, or remove the folder if nobody has that release", o.version, o.site)
	}
	return r, r.readKey()
}

// readCommit reads what is released, and when it was committed: the time of everything in the release.
func (r *release) readCommit(ctx context.Context) error {
	var err error
	if r.commit, err = ask(ctx, r.root, "git", "rev-parse", "HEAD"); err != nil {
		return err
	}
	// Go counts files that git does not know, and so do we: they may be part of a program.
	changed, err := ask(ctx, r.root, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if r.modified = changed != ""; r.modified && r.key != "" {
		return fmt.Errorf("files differ from the commit, and what is signed by --key has to come from one:\n%s", changed)
	}
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if seconds == "" {
		if seconds, err = ask(ctx, r.root, "git", "log", "-1", "--format=%ct"); err != nil {
			return err
		}
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("read the time of the release: %w", err)
	}
	r.at = time.Unix(n, 0).UTC()
	return nil
}

// throwaway is where a key for trying is kept, beside the site, so that the next release has it too.
func (r *release) throwaway() string { return r.site + "-throwaway.key" }

func (r *release) readKey() (err error) {
	file, passphrase := r.options.key, []byte(nil)
	if r.passphraseFile != "" {
		if passphrase, err = os.ReadFile(r.passphraseFile); err != nil {
			return err
		}
		passphrase = bytes.TrimRight(passphrase, "\r\n")
	}
	if file == "" {
		file = r.throwaway()
		if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
			if r.signer, err = signing.Make(r.at); err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				return err
			}
			return r.signer.Write(file)
		}
	}
	if r.signer, err = signing.Read(file, passphrase, r.at); err != nil {
		return err
	}
	return r.sameKey()
}

// sameKey refuses to sign some packages of a site with one key, and some with another.
func (r *release) sameKey() error {
	before, err := os.ReadFile(filepath.Join(r.site, publicKey))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	now, err := r.signer.Public()
	if err == nil && !bytes.Equal(before, now) {
		err = fmt.Errorf("the releases in %s are signed by another key: sign by that, or begin another folder with --site", r.site)
	}
	return err
}

// ask runs a program in a folder and returns its answer.
func ask(ctx context.Context, folder, name string, words ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, words...)
	cmd.Dir = folder
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(append([]string{name}, words...), " "), err, &complaint)
	}
	return strings.TrimSpace(string(out)), nil
}
