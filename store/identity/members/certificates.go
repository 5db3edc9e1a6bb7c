package members

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
)

// Issue is a record of a certificate that was given, or of a refusal.
type Issue struct {
	ID         [16]byte // random; recording the same id again has no effect
	At         time.Time
	Server     string // the server that gave or refused it; set by RecordIssues
	Refusal    string // as in Joined; empty if one was given
	Detail     string
	Identity   string // a SPIFFE id
	Enrolment  string
	Serial     string
	NotAfter   time.Time // zero if none was given
	Authority  string    // fingerprint of its root
	Credential string    // token, certificate or jwt
	Peer       string
	KeyHash    []byte
	Took       time.Duration
	Hosts      []string // DNS names in the certificate of a server; Issues does not read them

	// Similar refusals are counted as one. Then At is when the last was; set by Issues.
	First time.Time // when the first was; zero if there was only one
	Times int64     // how many there were
}

// RecordIssues records what a server gave and refused, in one statement. Similar refusals are
// counted.
func (s *Store) RecordIssues(ctx context.Context, server string, issues []Issue) error {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	n := len(issues)
	ids, times, ends, took, keys := make([][16]byte, n), make([]time.Time, n), make([]*time.Time, n), make([]time.Duration, n), make([][]byte, n)
	var texts [8][]*string
	for i, issue := range issues {
		ids[i], times[i], took[i], keys[i] = issue.ID, issue.At, issue.Took, issue.KeyHash
		if !issue.NotAfter.IsZero() {
			ends[i] = &issue.NotAfter
		}
		for c, text := range []string{issue.Refusal, issue.Detail, issue.Identity, issue.Enrolment, issue.Serial, issue.Authority, issue.Credential, issue.Peer} {
			text = store.Storable(text)
			texts[c] = append(texts[c], &text)
		}
		if issue.Refusal == "" {
			texts[0][i] = nil
		}
	}
	_, err := s.db.Pool().Exec(ctx, sql.RecordCertificates,
		store.Storable(server), ids, times, texts[0], texts[1], texts[2], texts[3], texts[4], ends, texts[5], texts[6], texts[7], keys, took)
	if err == nil {
		err = s.noteControlPlane(ctx, issues)
	}
	return store.Explain("recording certificates", err)
}

// noteControlPlane records the host names of servers, which nobody may claim.
func (s *Store) noteControlPlane(ctx context.Context, issues []Issue) error {
	for _, issue := range issues {
		if len(issue.Hosts) == 0 {
			continue
		}
		if _, err := s.db.Pool().Exec(ctx, sql.NoteControlPlane, issue.Identity, issue.Hosts); err != nil {
			return err
		}
	}
	return nil
}

// IssueFilter selects records. An empty field selects all.
type IssueFilter struct {
	Namespaces []string // of the identities; nil selects all, and identities without one
	Identity   string
	Enrolment  string
	Refused    bool // only refusals
	After      time.Time
	Limit      int
}

// Issues lists records, the newest first.
func (s *Store) Issues(ctx context.Context, f IssueFilter) ([]Issue, error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	rows, err := s.db.Pool().Query(ctx, sql.Issues, f.Namespaces, f.Identity, f.Enrolment, f.Refused, f.After, f.Limit)
	if err != nil {
		return nil, store.Explain("reading the record of certificates", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (i Issue, err error) {
		err = row.Scan(&i.ID, &i.At, &i.Server, &i.Refusal, &i.Detail, &i.Identity, &i.Enrolment, &i.Serial, &i.NotAfter, &i.Authority, &i.Credential, &i.Peer, &i.KeyHash, &i.Took,
			&i.First, &i.Times)
		return i, err
	})
	return list, store.Explain("reading the record of certificates", err)
}

// Machine is a member with a certificate in force.
type Machine struct {
	Namespace string // empty for a server
	Identity  string
	Enrolment string
	Issued    time.Time
	NotAfter  time.Time
	Serial    string
	Authority string
	Server    string
	Peer      string
	Revoked   bool
}

// Machines lists members with a certificate in force in some namespaces; all if none are given.
func (s *Store) Machines(ctx context.Context, namespaces []string) ([]Machine, error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	rows, err := s.db.Pool().Query(ctx, sql.Machines, namespaces)
	if err != nil {
		return nil, store.Explain("reading who has certificates", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Machine])
	return list, store.Explain("reading who has certificates", err)
}

// PruneCertificates deletes a batch of expired records, in a transaction of its own, and returns
// how many.
func (s *Store) PruneCertificates(ctx context.Context, rows int) (pruned int64, err error) {
	err = s.db.Chore(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, sql.PruneCertificates, rows).Scan(&pruned)
	})
	return pruned, store.Explain("pruning the record of certificates", err)
}
