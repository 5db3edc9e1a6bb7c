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
)

// token says where the next page begins. It knows what was asked for, for another question has other pages.
type token struct {
	Asked    string         `json:"q"`
	Revision store.Revision `json:"r"`
	Group    string         `json:"g,omitempty"` // of the last resource, as the three after it
	Kind     string         `json:"k,omitempty"`
	In       string         `json:"s,omitempty"`
	Name     string         `json:"n,omitempty"`
}

func (t *token) String() string {
	text, err := json.Marshal(t)
	if err != nil {
		panic(fmt.Sprintf("encoding a token of strings: %v", err))
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// after is the resource that the page before ended with.
func (t *token) after() *kinds.Key {
	kind, _ := kinds.Lookup(t.Group, t.Kind)
	return &kinds.Key{Kind: kind, Namespace: t.In, Name: t.Name}
}

func listTokenAfter(page store.Page, req *adminv1.ListRequest) *token {
	last := page.Resources[len(page.Resources)-1].Key
	return &token{asked(req), page.Revision, last.Kind.Group, last.Kind.Name, last.Namespace, last.Name}
}

// asked is a digest of a request, but for what may differ from page to page.
func asked(req proto.Message) string {
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

const longestToken = 4 << 10

// paged is a request for a page.
type paged interface {
	proto.Message
	GetPageToken() string
}

// token reads the token of a request, nil if it has none, or one that is not for it.
func (f *fields) token(req paged) *token {
	text := req.GetPageToken()
	if text == "" {
		return nil
	}
	t := &token{}
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil && len(text) <= longestToken {
		err = json.Unmarshal(decoded, t)
	}
	switch {
	case err != nil || len(text) > longestToken || t.Revision < 0:
		f.addf("page_token", "is not one that was given; begin without one")
	case t.Asked != asked(req):
		f.addf("page_token", "is of another request: everything but page_size has to be as it was for the page before")
	default:
		return t
	}
	return nil
}

// listToken is a token that names a resource.
func (f *fields) listToken(req *adminv1.ListRequest) *token {
	t := f.token(req)
	if t != nil && t.after().Kind == nil {
		f.addf("page_token", "is not one that was given; begin without one")
		return nil
	}
	return t
}
