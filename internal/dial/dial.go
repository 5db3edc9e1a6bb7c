// Package dial connects to servers as flags say: over TLS, with a certificate or a token, or in
// plaintext where that is allowed.
package dial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pgmesh/pgmesh/identity/tlsfiles"
	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/internal/listen"
)

// Options are the settings of a connection to a server.
type Options struct {
	TLS       tlsfiles.Client
	Token     string
	TokenFile string
	Plaintext listen.Plaintext // where plaintext is allowed
	// Identity is shown unless TLS flags say otherwise.
	Identity Identity
}

// Identity is who a program is in the mesh.
type Identity struct {
	credentials credentials.TransportCredentials
}

// Nobody is the identity of a program that is no member of the mesh.
var Nobody Identity

// Member is the identity of a member, which has these credentials.
func Member(c credentials.TransportCredentials) Identity { return Identity{c} }

// Flags declares the flags with a prefix. It leaves out the flags of Plaintext, which programs that
// listen declare anyway.
func (o *Options) Flags(f *pflag.FlagSet, prefix string) {
	o.TLS.Flags(f, prefix)
	f.StringVar(&o.TokenFile, prefix+"token-file", "", "file with the bearer token to show to the server; it is read again when it changes")
	f.StringVar(&o.Token, prefix+"token", "", "the bearer token itself; others on this machine can see it: a file or the variable are better")
}

// Connection has the credentials for connections to a server.
type Connection struct {
	options []grpc.DialOption
	bearer  *bearer
}

// To returns the credentials for addresses, each host:port. Its errors name the flag to change.
func (o *Options) To(log *slog.Logger, addresses ...string) (*Connection, error) {
	if err := o.check(addresses); err != nil {
		return nil, err
	}
	shown, transport, err := o.shown(log)
	if err != nil {
		return nil, err
	}
	c := &Connection{options: []grpc.DialOption{grpc.WithTransportCredentials(shown)}}
	if o.Token == "" && o.TokenFile == "" {
		return c, nil
	}
	token, err := o.token(log)
	if err != nil {
		return nil, err
	}
	c.bearer = &bearer{token, transport}
	c.options = append(c.options, grpc.WithPerRPCCredentials(c.bearer))
	return c, nil
}

// shown returns what the program shows to the server, and how they speak.
func (o *Options) shown(log *slog.Logger) (credentials.TransportCredentials, listen.Transport, error) {
	switch {
	case o.TLS.Given():
	case o.Plaintext.Allowed:
		return insecure.NewCredentials(), listen.Insecure, nil
	case o.Identity != Nobody:
		return o.Identity.credentials, listen.Secure, nil
	}
	files, err := o.TLS.Load(reload.Options{Log: log})
	if err != nil {
		return nil, listen.Secure, err
	}
	return files.Credentials(), listen.Secure, nil
}

// DialOptions returns the credentials as gRPC options.
func (c *Connection) DialOptions() []grpc.DialOption { return c.options }

func (o *Options) check(addresses []string) error {
	for _, address := range addresses {
		if err := o.Plaintext.CheckPeer(address); err != nil {
			return err
		}
	}
	if o.Plaintext.Allowed && o.TLS.Given() {
		return listen.ErrSecure
	}
	if o.Token != "" && o.TokenFile != "" {
		return errors.New("--token and --token-file: give one of them")
	}
	return nil
}

func (o *Options) token(log *slog.Logger) (func() string, error) {
	if o.TokenFile == "" {
		return func() string { return o.Token }, nil
	}
	file, err := reload.Load(reload.Options{What: "token", Log: log}, func(contents [][]byte) (string, error) {
		token := string(bytes.TrimSpace(contents[0]))
		if token == "" || bytes.ContainsAny(bytes.TrimSpace(contents[0]), " \t\r\n") {
			return "", fmt.Errorf("%s: there has to be one token in it and nothing else", o.TokenFile)
		}
		return token, nil
	}, o.TokenFile)
	if err != nil {
		return nil, err
	}
	return file.Fresh, nil
}

// bearer sends a token with each call.
type bearer struct {
	token     func() string
	transport listen.Transport
}

var _ credentials.PerRPCCredentials = (*bearer)(nil)

// GetRequestMetadata returns the authorization header.
func (b *bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + b.token()}, nil
}

// RequireTransportSecurity keeps gRPC from sending the token in plaintext, unless the connection
// may be plaintext.
func (b *bearer) RequireTransportSecurity() bool { return b.transport == listen.Secure }
