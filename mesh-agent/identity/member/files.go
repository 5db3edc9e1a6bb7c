package member

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/join"
)

// Files name the certificate, key and roots of a machine that another issuer certifies.
type Files struct{ cert, key, roots string }

// Flags declares the flags that name the files.
func (f *Files) Flags(flags *pflag.FlagSet) {
	flags.StringVar(&f.cert, "tls-cert", "", "PEM file with this machine's certificate, if somebody else gives it out; it is read again when it changes")
	flags.StringVar(&f.key, "tls-key", "", "PEM file with the key of --tls-cert")
	flags.StringVar(&f.roots, "tls-roots", "", "PEM file with the authorities that vouch for the members of the mesh, with --tls-cert")
}

func (f *Files) given() bool { return *f != Files{} }

// workload returns the identity in the files.
func (f *Files) workload() (w identity.Workload, err error) {
	if f.cert == "" || f.key == "" || f.roots == "" {
		return w, errors.New("--tls-cert, --tls-key and --tls-roots belong together: give all three")
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return w, fmt.Errorf("%s and %s: %w", f.cert, f.key, err)
	}
	id, err := identity.Of(pair.Leaf)
	if err == nil {
		err = join.IsMachine(id)
	}
	if err != nil {
		return w, fmt.Errorf("%s: %w", f.cert, err)
	}
	w, _ = identity.WorkloadOf(id)
	return w, nil
}

// certificate returns a function that returns what the files hold now. What names its use in the
// log.
func (f *Files) certificate(what string, log *slog.Logger) (func() *tls.Certificate, error) {
	pair, err := reload.Load(reload.Options{What: what, Log: log}, func(contents [][]byte) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		return &pair, err
	}, f.cert, f.key)
	if err != nil {
		return nil, err
	}
	return pair.Fresh, nil
}
