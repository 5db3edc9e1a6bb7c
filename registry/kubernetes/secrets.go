package kubernetes

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/kinds"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
	"github.com/pgmesh/pgmesh/registry"
)

// A Secret of the cluster is for gateways if a label of it names their service account. All others are
// never asked for.
const (
	accountLabel       = "mesh.pgmesh.io/service-account"
	accountsAnnotation = "mesh.pgmesh.io/service-accounts" // further ones, with commas between them
)

// secretsEntry begins the entries of Secrets, as kubectl names them.
const secretsEntry = "secrets"

// mostSecrets bounds what is kept of a namespace.
const mostSecrets = 2000

// secretObject is a Secret.
type secretObject struct {
	Metadata struct {
		metadata

		UID string `json:"uid"`
	} `json:"metadata"`
	Type string            `json:"type"`
	Data map[string][]byte `json:"data"`
}

// Version implements follow.Object.
func (o secretObject) Version() string { return o.Metadata.ResourceVersion }

func (o secretObject) key() key { return o.Metadata.bare.key() }

// lending are the Secrets of a namespace that are for gateways.
type lending struct {
	*mesh

	group   *group
	all     map[key]*registry.Secret
	altered bool
}

// LendsSecrets implements registry.Lender.
func (r *Registry) LendsSecrets() bool { return len(r.secrets) > 0 }

// followSecrets has the Secrets followed that are for gateways.
func (m *mesh) followSecrets(ctx context.Context, g *errgroup.Group) {
	for _, namespace := range m.secrets {
		l := &lending{mesh: m, group: m.newGroup("the " + secretsEntry + " of " + namespace), all: map[key]*registry.Secret{}}
		m.lending[namespace] = l
		list := keeping(m, l.group, l.group.entry, namespace, l.all, l.set, (*secretObject).secret)
		followList(ctx, g, "/api/v1/namespaces/"+namespace+"/secrets?labelSelector="+accountLabel, list)
	}
}

// set takes a Secret; nil removes it.
func (l *lending) set(k key, s *registry.Secret) {
	if s != nil && l.all[k] == nil && len(l.all) >= mostSecrets {
		l.blame(secretEntry(k), fmt.Errorf("the namespace has more than %d Secrets for gateways, and this one is left out", mostSecrets))
		return
	}
	l.blame(secretEntry(k), nil)
	if before := l.all[k]; before == nil || s == nil || before.Version != s.Version {
		l.altered = true
		if l.all[k] = s; s == nil {
			delete(l.all, k)
		}
	}
}

// relend returns the Secrets of the namespaces of which some have changed since they were told.
func (m *mesh) relend() map[string][]registry.Secret {
	changed := map[string][]registry.Secret{}
	for namespace, l := range m.lending {
		if !l.group.read() || !l.altered && l.group.given {
			continue
		}
		all := make([]registry.Secret, 0, len(l.all))
		for _, s := range l.all {
			all = append(all, *s)
		}
		changed[namespace], l.altered = all, false
	}
	return changed
}

func secretEntry(k key) string { return secretsEntry + "/" + k.String() }

// secret makes a secret of the mesh. What is wrong with it is found where it is served.
func (o *secretObject) secret() *registry.Secret {
	k := o.key()
	return &registry.Secret{
		Version: o.Metadata.UID + "/" + o.Metadata.ResourceVersion,
		Resource: &kinds.Resource{
			Kind: kinds.Secret, Namespace: k.namespace, Name: k.name, Labels: o.Metadata.Labels, CreateTime: o.Metadata.CreationTimestamp,
			Annotations: map[string]string{kinds.OriginEntryAnnotation: secretEntry(k)},
			Spec:        kinds.SpecOf(&mcpv1.Secret{Type: o.Type, Data: o.Data, ServiceAccounts: o.accounts()}),
		},
	}
}

// accounts are the service accounts whose gateways may have the Secret.
func (o *secretObject) accounts() (all []string) {
	for name := range strings.SplitSeq(o.Metadata.Labels[accountLabel]+","+o.Metadata.Annotations[accountsAnnotation], ",") {
		if name = strings.TrimSpace(name); name != "" {
			all = append(all, name)
		}
	}
	return all
}
