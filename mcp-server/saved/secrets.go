package saved

import (
	"maps"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
)

// Secrets are saved sealed by the server's keys, or not at all. Without them, a server that starts
// from the file withholds secrets, and clients keep those that they have.

// sealedType is the type URL of a sealed body in the file.
const sealedType = "pgmesh.io/sealed"

// place binds a sealed body to the file and to the secret's name.
func place(name string) seal.Place { return seal.Place{Name: name, Value: "saved"} }

// sealSecrets returns a state with its secrets sealed, or without them if there are no keys.
func (f folder) sealSecrets(s *publish.State) *publish.State {
	kept := *s
	kept.Sets = maps.Clone(s.Sets)
	secrets, known := kept.Sets[kinds.Secret]
	delete(kept.Sets, kinds.Secret)
	if !known || !f.keys.Can() {
		return &kept
	}
	var sealed []*served.Resource
	for r := range secrets.All() {
		sealed = append(sealed, &served.Resource{
			Name: r.Name, Version: r.Version,
			Body: &anypb.Any{TypeUrl: sealedType, Value: []byte(f.keys.Seal(place(r.Name), r.Body.GetValue()))},
		})
	}
	kept.Sets[kinds.Secret] = served.NewSet(sealed...)
	return &kept
}

// openSecrets undoes sealSecrets. If one secret cannot be opened, all are left out.
func (f folder) openSecrets(s *publish.State) *publish.State {
	secrets := s.Sets[kinds.Secret]
	delete(s.Sets, kinds.Secret)
	var open []*served.Resource
	for r := range secrets.All() {
		body, err := f.keys.Open(place(r.Name), string(r.Body.GetValue()))
		if err != nil || r.Body.GetTypeUrl() != sealedType {
			return s
		}
		open = append(open, &served.Resource{Name: r.Name, Version: r.Version, Body: &anypb.Any{TypeUrl: envelopeType, Value: body}})
	}
	if secrets != nil {
		s.Sets[kinds.Secret] = served.NewSet(open...)
	}
	return s
}

// envelopeType is the type URL of every secret's body.
const envelopeType = "type.googleapis.com/istio.mcp.v1alpha1.Resource"
