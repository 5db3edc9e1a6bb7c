package members

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgmesh/pgmesh/store"
)

// JoinToken is the record of a token by which machines or servers join the mesh. It is for a
// service account, a WorkloadGroup or a program.
type JoinToken struct {
	ID             int64
	Name           string
	Hash           []byte // SHA-256 of its secret; not listed
	Namespace      string // empty for a program
	ServiceAccount string
	WorkloadGroup  string
	Program        string
	MaxUses, Uses  int
	Created        time.Time
	By             string // who created it
	Expires        time.Time
	Revoked        time.Time // zero if it is not revoked
	Revoker        string
	Used           time.Time // when somebody joined last; zero for never
	State          string    // valid, used, expired or revoked
}

// ErrTokenExists says that a join token with that name is in force.
var ErrTokenExists = errors.New("there is a token of that name already")

// CreateJoinToken stores the hash of a new join token, in the name of its By.
func (s *Store) CreateJoinToken(ctx context.Context, t JoinToken) error {
	var expires *time.Time
	if !t.Expires.IsZero() {
		expires = &t.Expires
	}
	err := store.InTheNameOf(ctx, s.db.TrustPool(), t.By, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sql.CreateJoinToken,
			t.Name, t.Hash, t.Namespace, t.ServiceAccount, t.WorkloadGroup, t.Program, t.MaxUses, expires)
		return err
	})
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "23505" {
		return fmt.Errorf("%w: %q (%s)", ErrTokenExists, t.Name, pg.Hint)
	}
	return store.ExplainInput("keeping a join token", err)
}

// RevokeJoinToken revokes a join token, in the name of by, and reports whether one of that name was
// in force.
func (s *Store) RevokeJoinToken(ctx context.Context, name, by string) (bool, error) {
	return store.CallInTheNameOf(ctx, s.db.TrustPool(), "revoking a join token", by, sql.RevokeJoinToken, name)
}

// RevokeJoinTokenAmong is RevokeJoinToken for a caller who may revoke only the tokens of some
// namespaces (nil means all) and, if servers is set, those of servers. Other tokens seem not to
// exist.
func (s *Store) RevokeJoinTokenAmong(ctx context.Context, name string, namespaces []string, servers bool, by string) (bool, error) {
	return store.CallInTheNameOf(ctx, s.db.TrustPool(), "revoking a join token", by, sql.RevokeJoinTokenAmong, name, namespaces, servers)
}

// JoinTokens lists the join tokens of some namespaces; all, and those of programs, if none are
// given. It includes tokens that are no longer valid.
func (s *Store) JoinTokens(ctx context.Context, namespaces []string) ([]JoinToken, error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	rows, err := s.db.Pool().Query(ctx, sql.JoinTokens, namespaces)
	if err != nil {
		return nil, store.Explain("reading the join tokens", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (t JoinToken, err error) {
		err = row.Scan(&t.ID, &t.Name, &t.Namespace, &t.ServiceAccount, &t.WorkloadGroup, &t.Program, &t.MaxUses, &t.Uses,
			&t.Created, &t.By, &t.Expires, &t.Revoked, &t.Revoker, &t.Used, &t.State)
		return t, err
	})
	return list, store.Explain("reading the join tokens", err)
}

// Joining is a request to join with a token.
type Joining struct {
	TokenHash []byte // SHA-256 of the token's secret
	KeyHash   []byte // SHA-256 of the public key; the same key may use the same token again
	Peer      string
}

// Joined is the answer to a Joining.
type Joined struct {
	Refusal string // such as token_used, as the proto's Refusal in small letters without its prefix; empty if none
	Detail  string // the refusal in words
	Token   string // the token's name; empty if unknown

	Namespace      string
	ServiceAccount string
	WorkloadGroup  string
	Program        string // of a server's token
	Enrolment      string
}

// RedeemMachines redeems join tokens of machines, and returns the answers in the same order.
func (s *Store) RedeemMachines(ctx context.Context, server string, joining []Joining) ([]Joined, error) {
	return s.redeem(ctx, server, joining, false)
}

// RedeemServer redeems a join token of a server.
func (s *Store) RedeemServer(ctx context.Context, server string, j Joining) (Joined, error) {
	answers, err := s.redeem(ctx, server, []Joining{j}, true)
	if err != nil {
		return Joined{}, err
	}
	return answers[0], nil
}

func (s *Store) redeem(ctx context.Context, server string, joining []Joining, forServer bool) ([]Joined, error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	hashes, keys, peers := make([][]byte, len(joining)), make([][]byte, len(joining)), make([]string, len(joining))
	for i, j := range joining {
		hashes[i], keys[i], peers[i] = j.TokenHash, j.KeyHash, store.Storable(j.Peer)
	}
	rows, err := s.db.Pool().Query(ctx, sql.RedeemJoinTokens, hashes, keys, peers, store.Storable(server), forServer)
	if err != nil {
		return nil, store.Explain("using a join token", err)
	}
	answers, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Joined])
	if err == nil && len(answers) != len(joining) {
		err = fmt.Errorf("%d answers to %d questions", len(answers), len(joining))
	}
	return answers, store.Explain("using a join token", err)
}
