package saved

import (
	"errors"
	"maps"
	"slices"

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
	if known && f.keys.Can() {
		var sealed []*served.Resource
		for r := range secrets.All() {
			sealed = append(sealed, f.seal(r))
		}
		kept.Sets[kinds.Secret] = served.NewSet(sealed...)
	}
	kept.Joined = make([]publish.JoinedState, len(s.Joined))
	for i, joined := range s.Joined {
		kept.Joined[i] = f.sealJoined(joined)
	}
	return &kept
}

// sealJoined does the same with what a registry had.
func (f folder) sealJoined(s publish.JoinedState) publish.JoinedState {
	s.Content = maps.Clone(s.Content)
	secrets := s.Content[kinds.Secret]
	delete(s.Content, kinds.Secret)
	if len(secrets) > 0 && f.keys.Can() {
		sealed := make(map[string]*served.Resource, len(secrets))
		for name, r := range secrets {
			sealed[name] = f.seal(r)
		}
		s.Content[kinds.Secret] = sealed
	}
	return s
}

func (f folder) seal(r *served.Resource) *served.Resource {
	return &served.Resource{
		Name: r.Name, Version: r.Version,
		Body: &anypb.Any{TypeUrl: sealedType, Value: []byte(f.keys.Seal(place(r.Name), r.Body.GetValue()))},
	}
}

// openSecrets undoes sealSecrets. If one secret cannot be opened, all of its source are left out.
func (f folder) openSecrets(s *publish.State) *publish.State {
	secrets, known := s.Sets[kinds.Secret]
	delete(s.Sets, kinds.Secret)
	if open, err := f.openAll(slices.Collect(secrets.All())); err == nil && known {
		s.Sets[kinds.Secret] = served.NewSet(open...)
	}
	for _, joined := range s.Joined {
		sealed := slices.Collect(maps.Values(joined.Content[kinds.Secret]))
		delete(joined.Content, kinds.Secret)
		if open, err := f.openAll(sealed); err == nil && len(open) > 0 {
			joined.Content[kinds.Secret] = map[string]*served.Resource{}
			for _, r := range open {
				joined.Content[kinds.Secret][r.Name] = r
			}
		}
	}
	return s
}

func (f folder) openAll(sealed []*served.Resource) ([]*served.Resource, error) {
	all := make([]*served.Resource, len(sealed))
	for i, r := range sealed {
		body, err := f.keys.Open(place(r.Name), string(r.Body.GetValue()))
		if err == nil && r.Body.GetTypeUrl() != sealedType {
			err = errNotSealed
		}
		if err != nil {
			return nil, err
		}
		all[i] = &served.Resource{Name: r.Name, Version: r.Version, Body: &anypb.Any{TypeUrl: envelopeType, Value: body}}
	}
	return all, nil
}

var errNotSealed = errors.New("it is not sealed")

// envelopeType is the type URL of every secret's body.
const envelopeType = "type.googleapis.com/istio.mcp.v1alpha1.Resource"
