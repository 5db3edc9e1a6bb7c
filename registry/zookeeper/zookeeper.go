// Package zookeeper reads services from ZooKeeper, where Curator's service discovery or Dubbo has
// registered them.
//
// Package client asks ZooKeeper, package tree follows the nodes below one of them, and this one makes
// services of what they hold ([format]).
package zookeeper

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"

	"github.com/pgmesh/pgmesh/identity/tlsfiles"
	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/registry"
	"github.com/pgmesh/pgmesh/registry/zookeeper/client"
	"github.com/pgmesh/pgmesh/registry/zookeeper/tree"
)

// Registry is the services below one node of a ZooKeeper.
type Registry struct {
	*settings

	credentials *reload.Value[string]
	files       *tlsfiles.ClientFiles
}

// Open reads the settings of a registry from its URL, and the files that it names.
func Open(u *url.URL, o reload.Options) (*Registry, error) {
	s, err := read(u)
	if err != nil {
		return nil, err
	}
	r := &Registry{settings: s}
	if s.digest != "" {
		if r.credentials, err = loadCredentials(o, s.digest); err != nil {
			return nil, err
		}
	}
	if s.secure {
		if r.files, err = s.tls.Load(o); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// loadCredentials reads the file of "user:password", which is read again when it changes.
func loadCredentials(o reload.Options, file string) (*reload.Value[string], error) {
	o.What = "credentials for ZooKeeper"
	return reload.Load(o, func(contents [][]byte) (string, error) {
		text := string(bytes.TrimSpace(contents[0]))
		if !strings.Contains(text, ":") || strings.ContainsAny(text, "\r\n") {
			return "", errors.New("there has to be one line user:password in " + file)
		}
		return text, nil
	}, file)
}

// Name implements registry.Registry.
func (r *Registry) Name() string { return r.name }

// Run implements registry.Registry.
func (r *Registry) Run(ctx context.Context, sink registry.Sink) error {
	var f format = curator{r.settings}
	if r.format == formatDubbo {
		f = dubbo{r.settings}
	}
	t := &tree.Tree{
		Shape: f.shape(), Root: r.root, Each: r.each, Before: sink.Holds(),
		Client: client.Settings{Servers: r.servers, Dial: r.dial, Patience: r.patience},
	}
	if r.credentials != nil {
		t.Credentials = r.credentials.Fresh
	}
	return t.Run(ctx, &mesh{Registry: r, format: f, sink: sink, groups: map[string]*group{}})
}

func (r *Registry) dial(ctx context.Context, address string) (net.Conn, error) {
	if r.files == nil {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	conn, err := (&tls.Dialer{Config: r.files.Config()}).DialContext(ctx, "tcp", address)
	if errors.Is(err, io.EOF) {
		err = errors.New("it ends the connection instead of speaking TLS: is this ZooKeeper's secureClientPort?")
	}
	return conn, err
}

var _ registry.Registry = (*Registry)(nil)
