package admin

import (
	"testing"

	check "github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// readAs returns resources, each named once, or a list of violations.
func FuzzDocuments(f *testing.F) {
	const rule = "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: a}\nspec: {host: a}\n"
	f.Add([]byte(rule), []byte(rule), int32(1), int32(1))
	f.Add([]byte(rule+"---\n"+rule), []byte("{}"), int32(0), int32(7))
	f.Add([]byte("kind: List\nitems: [1, {}, null]\n"), []byte{}, int32(-1), int32(-1))
	f.Fuzz(func(t *testing.T, one, two []byte, index, line int32) {
		documents, err := readAs(withSecrets, []*adminv1.Document{{File: "f", Content: one, Index: index, Line: line}, {Content: two, Line: 1}})
		if err != nil {
			var violations kinds.Errors
			check.ErrorAs(t, err, &violations)
			check.NotEmpty(t, violations)
			check.NotEmpty(t, err.Error())
			return
		}
		named := map[kinds.Key]bool{}
		for _, d := range documents {
			check.False(t, named[d.Resource.Key()], "%s comes twice", d.Resource.Key())
			named[d.Resource.Key()] = true
		}
	})
}

// A page token is accepted only for the request that it was given for.
func FuzzPageToken(f *testing.F) {
	asks := &adminv1.ListRequest{Kinds: []string{"vs"}}
	given := (&token{Asked: requestDigest(asks), Revision: 7, Group: "networking.istio.io", Kind: "VirtualService", In: "shop", Name: "a"}).String()
	f.Add(given)
	f.Add((&token{Asked: requestDigest(&adminv1.ListRequest{}), Revision: 7}).String())
	f.Add((&token{Asked: requestDigest(asks), Revision: 7, Joined: true}).String())
	f.Add("e30")
	f.Fuzz(func(t *testing.T, text string) {
		var wrong fields
		read := wrong.listToken(&adminv1.ListRequest{Kinds: asks.GetKinds(), PageToken: text})
		if read == nil {
			check.Equal(t, text != "", wrong.err() != nil)
			return
		}
		check.NoError(t, wrong.err())
		if after := read.after(); after != nil || !read.Joined {
			check.NotNil(t, after.Kind)
		}
		check.Equal(t, requestDigest(asks), read.Asked)
		again := wrong.listToken(&adminv1.ListRequest{Kinds: asks.GetKinds(), PageToken: read.String()})
		check.Equal(t, read, again)
	})
}
