package storetest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/store/identity/members"
)

// HashOf is what the database stores of a secret.
func HashOf(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

// JoinToken returns a token that may be used once, for the machines of a service account.
func JoinToken(name string) members.JoinToken {
	return members.JoinToken{
		Name: name, Hash: HashOf(name), Namespace: "shop", ServiceAccount: "cart", MaxUses: 1, Expires: time.Now().Add(time.Hour), By: "ada",
	}
}

// Joining is a request to join with a token and a key.
func Joining(token, key string) members.Joining {
	return members.Joining{TokenHash: HashOf(token), KeyHash: HashOf(key), Peer: "10.0.0.1:4711"}
}

// Issued is a certificate that was just given, and is valid for an hour.
func Issued(identity, enrolment string) members.Issue {
	i := members.Issue{
		At: time.Now().Truncate(time.Microsecond), Identity: identity, Enrolment: enrolment, Serial: "0a1b", NotAfter: time.Now().Add(time.Hour).Truncate(time.Microsecond),
		Credential: "token", Peer: "10.0.0.1:4711", KeyHash: HashOf(enrolment), Took: 3 * time.Millisecond,
	}
	_, _ = rand.Read(i.ID[:])
	return i
}

// recorder is the part of the store that records certificates.
type recorder interface {
	RecordIssues(ctx context.Context, server string, issues []members.Issue) error
}

// Record records certificates, as a discovery does.
func Record(t testing.TB, s recorder, issues ...members.Issue) {
	t.Helper()
	require.NoError(t, s.RecordIssues(t.Context(), "spiffe://mesh/pgmesh/discovery/eu-1", issues))
}
