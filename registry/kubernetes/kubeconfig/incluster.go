package kubeconfig

import (
	"errors"
	"net"
	"net/url"
	"path/filepath"

	"github.com/pgmesh/pgmesh/internal/kit/reload"
)

// Pod is what Kubernetes gives a Pod to ask its cluster with.
type Pod struct {
	// Host and Port are where the cluster is.
	Host, Port string
	// Folder has the ServiceAccount's token and the cluster's authority, in token and ca.crt.
	Folder string
}

// Folder is where Kubernetes puts a ServiceAccount's files.
const Folder = "/var/run/secrets/kubernetes.io/serviceaccount"

// Load reads the files.
func (p Pod) Load(o reload.Options) (func() *Access, error) {
	if p.Host == "" || p.Port == "" {
		return nil, errors.New("this is no Pod of a cluster (KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set): name a kubeconfig, as in kubernetes:///etc/pgmesh/kubeconfig")
	}
	access := &Access{Server: &url.URL{Scheme: "https", Host: net.JoinHostPort(p.Host, p.Port)}}
	err := access.load(o, cluster{CA: filepath.Join(p.Folder, "ca.crt")}, user{TokenFile: filepath.Join(p.Folder, "token")}, "/")
	if err != nil {
		return nil, err
	}
	return func() *Access { return access }, nil
}
