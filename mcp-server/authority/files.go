package authority

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"

	signing "github.com/pgmesh/pgmesh/internal/authority"
	"github.com/pgmesh/pgmesh/internal/reload"
)

// Files are an authority that somebody else has made.
type Files struct {
	Cert, Key, Roots string
}

// Flags declares the flags of the files.
func (f *Files) Flags(flags *pflag.FlagSet) {
	flags.StringVar(&f.Cert, "authority-cert", "", "PEM file with the certificate of an authority, and those between it and its root, to sign with in place of the one that mcp-server makes; "+
		"it has to be allowed to have authorities beneath it, and is read again when it changes")
	flags.StringVar(&f.Key, "authority-key", "", "PEM file with the key of --authority-cert")
	flags.StringVar(&f.Roots, "authority-roots", "", "PEM file with the roots that the mesh trusts, if --authority-cert is not the only one; "+
		"alone, beside --tls-cert, those that join tokens name, of an authority that others sign with")
}

// Given tells whether there is to be an authority of files.
func (f *Files) Given() bool { return f.Cert != "" || f.Key != "" || f.Roots != "" }

// files are what is in them: an authority with its roots, or the roots alone of one that signs elsewhere.
type files struct {
	value *reload.Value[fromFiles]
}

type fromFiles struct {
	signer *signing.Authority // nil for none
	roots  []*x509.Certificate
}

// OnlyRoots tells whether somebody else signs.
func (f *Files) OnlyRoots() bool { return f.Cert == "" && f.Key == "" && f.Roots != "" }

func (f *Files) load(log *slog.Logger, changed func()) (*files, error) {
	o := reload.Options{What: "authority", Log: log, Changed: changed}
	if f.OnlyRoots() {
		value, err := reload.Load(o, func(contents [][]byte) (fromFiles, error) {
			roots, err := signing.ParseCertificates(contents[0])
			return fromFiles{roots: roots}, err
		}, f.Roots)
		return &files{value}, err
	}
	if f.Cert == "" || f.Key == "" {
		return nil, errors.New("--authority-cert and --authority-key belong together: give both, and --authority-roots if the certificate is not a root itself")
	}
	paths := []string{f.Cert, f.Key}
	if f.Roots != "" {
		paths = append(paths, f.Roots)
	}
	value, err := reload.Load(o, func(contents [][]byte) (fromFiles, error) {
		var roots []byte
		if len(contents) > 2 {
			roots = contents[2]
		}
		a, err := signing.Load(contents[0], contents[1], roots)
		if err == nil {
			err = a.MayDelegate()
		}
		if err != nil {
			return fromFiles{}, err
		}
		return fromFiles{a, a.Roots()}, nil
	}, paths...)
	return &files{value}, err
}

// reread takes over files that have changed, with what is known of everything else.
func (a *Authority) reread() {
	s := a.Current()
	if s == nil {
		return // what is read first has them
	}
	ctx := context.Background()
	known, err := a.stateOf(proto.CloneOf(s.trust), nil)
	if err == nil {
		err = a.learn(ctx, known)
	}
	if err != nil {
		a.complain(err)
	}
}
