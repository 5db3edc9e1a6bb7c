package store_test

import (
	"crypto/rand"
	"crypto/sha256"
	"testing"
	"time"

	"github.com/pgmesh/pgmesh/store"
)

func hashOf(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

// joinToken is one that may be used once, for the machines of a service account.
func joinToken(name string) store.JoinToken {
	return store.JoinToken{
		Name: name, Hash: hashOf(name), Namespace: "shop", ServiceAccount: "cart", MaxUses: 1, Expires: time.Now().Add(time.Hour), By: "ada",
	}
}

func joining(token, key string) store.Joining {
	return store.Joining{TokenHash: hashOf(token), KeyHash: hashOf(key), Peer: "10.0.0.1:4711"}
}

// issued is a certificate that was given a moment ago and is valid for an hour.
func issued(identity, enrolment string) store.Issue {
	i := store.Issue{
		At: time.Now().Truncate(time.Microsecond), Identity: identity, Enrolment: enrolment, Serial: "0a1b", NotAfter: time.Now().Add(time.Hour).Truncate(time.Microsecond),
		Credential: "token", Peer: "10.0.0.1:4711", KeyHash: hashOf(enrolment), Took: 3 * time.Millisecond,
	}
	_, _ = rand.Read(i.ID[:])
	return i
}

func record(t *testing.T, s *store.Store, issues ...store.Issue) {
	t.Helper()
	if err := s.RecordIssues(t.Context(), "spiffe://mesh/pgmesh/discovery/eu-1", issues); err != nil {
		t.Fatal(err)
	}
}
