// Package kubeconfig reads where a Kubernetes cluster is and who asks it: from a kubeconfig, as
// kubectl has it, or from what Kubernetes gives each Pod.
//
// All files, the kubeconfig too, are read again when they change. What would have us run a program
// (exec, auth-provider) is refused: give a token or a certificate.
package kubeconfig

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/internal/kit/nearest"
	"github.com/pgmesh/pgmesh/internal/kit/reload"
)

// Load reads a kubeconfig. The context is its current one if none is named.
func Load(o reload.Options, path, context string) (func() *Access, error) {
	o.What = "kubeconfig"
	folder := filepath.Dir(path)
	value, err := reload.Load(o, func(contents [][]byte) (*Access, error) { return read(o, contents[0], folder, context) }, path)
	if err != nil {
		return nil, err
	}
	return value.Fresh, nil
}

// file is a kubeconfig, as far as it is read.
type file struct {
	CurrentContext string `yaml:"current-context"`
	Contexts       []struct {
		Name    string
		Context struct{ Cluster, User string }
	}
	Clusters []struct {
		Name    string
		Cluster cluster
	}
	Users []struct {
		Name string
		User user
	}
}

type cluster struct {
	Server        string
	CA            string `yaml:"certificate-authority"`
	CAData        inline `yaml:"certificate-authority-data"`
	Insecure      bool   `yaml:"insecure-skip-tls-verify"`
	TLSServerName string `yaml:"tls-server-name"`
	Proxy         string `yaml:"proxy-url"`
}

type user struct {
	Cert         string    `yaml:"client-certificate"`
	CertData     inline    `yaml:"client-certificate-data"`
	Key          string    `yaml:"client-key"`
	KeyData      inline    `yaml:"client-key-data"`
	Token        string    `yaml:"token"`
	TokenFile    string    `yaml:"tokenFile"`
	Username     string    `yaml:"username"`
	Exec         yaml.Node `yaml:"exec"`
	AuthProvider yaml.Node `yaml:"auth-provider"`
}

// inline is what a kubeconfig has in base64 in place of a file.
type inline []byte

// UnmarshalText implements encoding.TextUnmarshaler.
func (i *inline) UnmarshalText(text []byte) (err error) {
	if *i, err = base64.StdEncoding.DecodeString(string(bytes.TrimSpace(text))); err != nil {
		return errors.New("what ends in -data is no base64")
	}
	return nil
}

func read(o reload.Options, content []byte, folder, context string) (*Access, error) {
	var f file
	if err := yaml.Unmarshal(content, &f); err != nil {
		return nil, errors.New("it is no kubeconfig: it cannot be read as YAML") // the error would quote tokens
	}
	c, u, err := f.chosen(context)
	if err != nil {
		return nil, err
	}
	if err := refuse(c, u); err != nil {
		return nil, err
	}
	server, err := serverOf(c.Server)
	if err != nil {
		return nil, err
	}
	access := &Access{Server: server}
	if err := access.load(o, c, u, folder); err != nil {
		return nil, err
	}
	return access, nil
}

// chosen are the cluster and the user of a context.
func (f *file) chosen(context string) (c cluster, u user, err error) {
	if context == "" {
		context = f.CurrentContext
	}
	if context == "" {
		return c, u, errors.New("the kubeconfig has no current context: name one with context")
	}
	var names []string
	for _, each := range f.Contexts {
		if names = append(names, each.Name); each.Name == context {
			return f.parts(context, each.Context.Cluster, each.Context.User)
		}
	}
	return c, u, fmt.Errorf("the kubeconfig has no context %q: %s", context, nearest.Hint(context, names, "there are "))
}

func (f *file) parts(context, clusterName, userName string) (c cluster, u user, err error) {
	found := false
	for _, each := range f.Clusters {
		if each.Name == clusterName {
			c, found = each.Cluster, true
		}
	}
	if !found {
		return c, u, fmt.Errorf("the context %s names the cluster %q, which the kubeconfig has not", context, clusterName)
	}
	for _, each := range f.Users {
		if each.Name == userName {
			return c, each.User, nil
		}
	}
	if userName != "" {
		return c, u, fmt.Errorf("the context %s names the user %q, whom the kubeconfig has not", context, userName)
	}
	return c, u, nil
}

// refuse says what is not supported, and what to do in its place.
func refuse(c cluster, u user) error {
	switch {
	case !u.Exec.IsZero():
		return errors.New("its user gets credentials by running a program (exec), and no program is run here: make a ServiceAccount for pgmesh, and name its token with tokenFile")
	case !u.AuthProvider.IsZero():
		return errors.New("its user has an auth-provider, which Kubernetes has no more: make a ServiceAccount for pgmesh, and name its token with tokenFile")
	case u.Username != "":
		return errors.New("its user has a password, which Kubernetes takes no more: make a ServiceAccount for pgmesh, and name its token with tokenFile")
	case c.Insecure:
		return errors.New("it does not verify the cluster (insecure-skip-tls-verify), so anybody could give the mesh its services: name the cluster's authority with certificate-authority")
	case c.Proxy != "":
		return errors.New("it asks by a proxy (proxy-url), which is not supported: name the cluster itself as server")
	}
	return nil
}

func serverOf(text string) (*url.URL, error) {
	server, err := url.Parse(text)
	if err != nil || server.Host == "" || server.Scheme != "https" && server.Scheme != "http" {
		return nil, fmt.Errorf("%q is no address of a cluster: write server as https://HOST:PORT", text)
	}
	if server.User != nil {
		return nil, errors.New("the server's address has a password in it: give a token or a certificate as the user")
	}
	return server, nil
}
