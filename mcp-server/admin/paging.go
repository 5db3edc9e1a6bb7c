package admin

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/resources"
)

// token is a cursor: it says where the next page begins. It holds a digest of the request, because
// another request has other pages.
type token struct {
	Asked    string         `json:"q"`           // the digest of the request
	Revision store.Revision `json:"r"`           // all pages show the state at this revision
	Group    string         `json:"g,omitempty"` // this and the next three are the last resource's
	Kind     string         `json:"k,omitempty"`
	In       string         `json:"s,omitempty"`
	Name     string         `json:"n,omitempty"`
	Joined   bool           `json:"j,omitempty"` // the resource is a registry's, or those begin
}

func (t *token) String() string {
	text, err := json.Marshal(t)
	if err != nil {
		panic(fmt.Sprintf("encoding a token of strings: %v", err))
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// after returns the last resource of the page before; nil for where registries begin.
func (t *token) after() *kinds.Key {
	if t.Joined && t.Kind == "" {
		return nil
	}
	kind, _ := kinds.Lookup(t.Group, t.Kind)
	return &kinds.Key{Kind: kind, Namespace: t.In, Name: t.Name}
}

func listTokenAfter(page resources.Page, req *adminv1.ListRequest) *token {
	last := page.Resources[len(page.Resources)-1].Key
	return &token{Asked: requestDigest(req), Revision: page.Revision, Group: last.Kind.Group, Kind: last.Kind.Name, In: last.Namespace, Name: last.Name}
}

// requestDigest returns a digest of everything in a request that must not change from page to page.
func requestDigest(req proto.Message) string {
	switch r := proto.Clone(req).(type) {
	case *adminv1.ListRequest:
		r.PageToken, r.PageSize = "", 0
		req = r
	case *adminv1.HistoryRequest:
		r.PageToken, r.PageSize = "", 0
		req = r
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(req)
	if err != nil {
		panic(fmt.Sprintf("encoding a request that was decoded: %v", err))
	}
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:8])
}

const maxTokenBytes = 4 << 10

// pagedRequest is a request for a page.
type pagedRequest interface {
	proto.Message
	GetPageToken() string
}

// token reads the page token of a request; nil if there is none, or none that fits the request.
func (f *fields) token(req pagedRequest) *token {
	text := req.GetPageToken()
	if text == "" {
		return nil
	}
	t := &token{}
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil && len(text) <= maxTokenBytes {
		err = json.Unmarshal(decoded, t)
	}
	switch {
	case err != nil || len(text) > maxTokenBytes || t.Revision < 0:
		f.addf("page_token", "is not one that was given; begin without one")
	case t.Asked != requestDigest(req):
		f.addf("page_token", "is of another request: everything but page_size has to be as it was for the page before")
	default:
		return t
	}
	return nil
}

// listToken is token for a list, whose token must name a resource.
func (f *fields) listToken(req *adminv1.ListRequest) *token {
	t := f.token(req)
	if t == nil {
		return nil
	}
	if after := t.after(); after != nil && after.Kind == nil {
		f.addf("page_token", "is not one that was given; begin without one")
		return nil
	}
	return t
}
