package authority

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"log/slog"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"

	signing "github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/mcp-server/identity/signer"
)

// Files name an authority that somebody else created.
type Files struct {
	Cert, Key, Roots string

	Command string // a command that signs, in place of Key
}

func (f *Files) source() *signer.Source { return &signer.Source{Key: f.Key, Command: f.Command} }

// Flags declares the flags of the files.
func (f *Files) Flags(flags *pflag.FlagSet) {
	flags.StringVar(&f.Cert, "authority-cert", "", "PEM file with the certificate of an authority, and those between it and its root, to sign with in place of the one that mcp-server makes; "+
		"it has to be allowed to have authorities beneath it, and is read again when it changes")
	flags.StringVar(&f.Key, signer.KeyFlag, "", "PEM file with the key of --authority-cert; or a key that stays in its token: "+
		"pkcs11:token=LABEL;object=LABEL, then ?module-path=LIBRARY and &pin-source=FILE")
	flags.StringVar(&f.Command, signer.CommandFlag, "", signer.CommandHelp)
	flags.StringVar(&f.Roots, "authority-roots", "", "PEM file with the roots that the mesh trusts, if --authority-cert is not the only one; "+
		"alone, beside --tls-cert, those that join tokens name, of an authority that others sign with")
}

// Given reports whether any file or command is set.
func (f *Files) Given() bool { return f.Cert != "" || f.hasKey() || f.Roots != "" }

func (f *Files) hasKey() bool { return f.Key != "" || f.Command != "" }

// files hold the loaded content: an authority with its roots, or only the roots of one that signs
// elsewhere.
type files struct {
	value *reload.Value[fromFiles]
}

type fromFiles struct {
	signer *signing.Authority // nil for none
	roots  []*x509.Certificate
}

// OnlyRoots reports whether only roots are given, because somebody else signs.
func (f *Files) OnlyRoots() bool { return f.Cert == "" && !f.hasKey() && f.Roots != "" }

func (f *Files) load(log *slog.Logger, changed func()) (*files, error) {
	if f.source().External() {
		if err := f.source().Check(); err != nil {
			return nil, err
		}
	}
	o := reload.Options{What: "authority", Log: log, Changed: changed}
	if f.OnlyRoots() {
		value, err := reload.Load(o, func(contents [][]byte) (fromFiles, error) {
			roots, err := signing.ParseCertificates(contents[0])
			return fromFiles{roots: roots}, err
		}, f.Roots)
		return &files{value}, err
	}
	if f.Cert == "" || !f.hasKey() {
		return nil, errors.New("--authority-cert and --authority-key belong together: give both, and --authority-roots if the certificate is not a root itself")
	}
	paths := []string{f.Cert}
	for _, path := range []string{f.keyFile(), f.Roots} {
		if path != "" {
			paths = append(paths, path)
		}
	}
	value, err := reload.Load(o, f.read, paths...)
	return &files{value}, err
}

// keyFile returns the file of the key; "" for a key in a token or with a KMS.
func (f *Files) keyFile() string {
	if f.source().External() {
		return ""
	}
	return f.Key
}

// read builds an authority from the contents of the files, in the order in which load names them.
func (f *Files) read(contents [][]byte) (fromFiles, error) {
	chain, contents := contents[0], contents[1:]
	key := func(c *x509.Certificate) (crypto.Signer, error) { return f.source().Of(c) }
	if f.keyFile() != "" {
		text := contents[0]
		key, contents = func(*x509.Certificate) (crypto.Signer, error) { return signing.ParseKey(text) }, contents[1:]
	}
	var roots []byte
	if len(contents) > 0 {
		roots = contents[0]
	}
	a, err := signing.LoadWith(chain, key, roots)
	if err == nil {
		err = a.MayDelegate()
	}
	if err != nil {
		return fromFiles{}, err
	}
	return fromFiles{a, a.Roots()}, nil
}

// reread makes a new state from changed files and the rest of the current state.
func (a *Authority) reread() {
	s := a.Current()
	if s == nil {
		return // the first state will have them
	}
	ctx := context.Background()
	state, err := a.stateOf(proto.CloneOf(s.trust), nil)
	if err == nil {
		err = a.setState(ctx, state)
	}
	if err != nil {
		a.logOnce(err)
	}
}
