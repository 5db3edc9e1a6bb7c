package saved

import (
	"maps"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	"github.com/pgmesh/pgmesh/mcp-server/seal"
)

// Secrets are in the file sealed by the keys of the server, or not at all: then a server that starts from it says nothing of secrets, and
// clients keep those that they have.

// sealedType stands in the file for the type of a body that is sealed.
const sealedType = "pgmesh.io/sealed"

// place binds what is sealed to the file, and to the name of the secret.
func place(name string) seal.Place { return seal.Place{Name: name, Value: "saved"} }

// forFile is a state as a file may have it.
func (f folder) forFile(s *publish.State) *publish.State {
	kept := *s
	kept.Sets = maps.Clone(s.Sets)
	secrets, known := kept.Sets[kinds.Secret]
	delete(kept.Sets, kinds.Secret)
	if !known || !f.keys.Can() {
		return &kept
	}
	var sealed []*ads.Resource
	for r := range secrets.All() {
		sealed = append(sealed, &ads.Resource{
			Name: r.Name, Version: r.Version,
			Body: &anypb.Any{TypeUrl: sealedType, Value: []byte(f.keys.Seal(place(r.Name), r.Body.GetValue()))},
		})
	}
	kept.Sets[kinds.Secret] = ads.NewSet(sealed...)
	return &kept
}

// fromFile undoes forFile. If there is a secret that cannot be opened nothing is known of any.
func (f folder) fromFile(s *publish.State) *publish.State {
	secrets := s.Sets[kinds.Secret]
	delete(s.Sets, kinds.Secret)
	var open []*ads.Resource
	for r := range secrets.All() {
		body, err := f.keys.Open(place(r.Name), string(r.Body.GetValue()))
		if err != nil || r.Body.GetTypeUrl() != sealedType {
			return s
		}
		open = append(open, &ads.Resource{Name: r.Name, Version: r.Version, Body: &anypb.Any{TypeUrl: envelopeType, Value: body}})
	}
	if secrets != nil {
		s.Sets[kinds.Secret] = ads.NewSet(open...)
	}
	return s
}

// envelopeType is that of the body of every secret.
const envelopeType = "type.googleapis.com/istio.mcp.v1alpha1.Resource"
