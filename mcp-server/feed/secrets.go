package feed

import (
	"encoding/json"
	"fmt"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
	"github.com/pgmesh/pgmesh/store/secrets"
)

// EncodeSecret converts a stored secret into the form that is sent to clients. Its version is a
// hash of the database's digests of the values, so it reveals nothing about the values.
func EncodeSecret(s *secrets.Secret, keys *seal.Keys) (*served.Resource, error) {
	data, err := keys.Read(s.Namespace, s.Name, s.Data)
	if err != nil {
		return nil, err
	}
	content := map[string]any{"type": s.Type, "digests": s.Digests}
	if len(s.ServiceAccounts) > 0 {
		content["serviceAccounts"] = s.ServiceAccounts
	}
	known, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("hash %s: %w", s, err)
	}
	version, err := kinds.ContentVersion(s.Labels, nil, known, s.Created)
	if err != nil {
		return nil, fmt.Errorf("hash %s: %w", s, err)
	}
	body, err := (&kinds.Resource{
		Kind: kinds.Secret, Namespace: s.Namespace, Name: s.Name, Labels: s.Labels, CreateTime: s.Created,
		Spec: kinds.SpecOf(&mcpv1.Secret{Type: s.Type, Data: data, ServiceAccounts: s.ServiceAccounts}),
	}).Any(version)
	if err != nil {
		return nil, err
	}
	return &served.Resource{Name: s.Key().FullName(), Version: version, Body: body}, nil
}

// encodeSecret returns a secret as it is sent; nil if it cannot be read, so that clients keep the
// last good version.
func (f *Feed) encodeSecret(s *secrets.Secret) *served.Resource {
	encoded, err := EncodeSecret(s, f.keys)
	if err != nil {
		f.undecodable.Inc()
		f.log.Error("a stored secret cannot be read; clients keep the last good state of it", "secret", s.Key().FullName(), "error", err)
		return nil
	}
	return encoded
}

// addSecret adds the change of a secret to c.
func (f *Feed) addSecret(c *publish.Changes, change secrets.Change) {
	if change.Now == nil {
		c.Removed[kinds.Secret] = append(c.Removed[kinds.Secret], change.Key.FullName())
	} else if encoded := f.encodeSecret(change.Now); encoded != nil {
		c.Upserts[kinds.Secret] = append(c.Upserts[kinds.Secret], encoded)
	}
}
