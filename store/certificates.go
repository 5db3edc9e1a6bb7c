package store

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Issue is a certificate that was given, or refused.
type Issue struct {
	ID         [16]byte // made up by who records it: what is recorded again counts once
	At         time.Time
	Server     string // who gave or refused it; set by RecordIssues
	Refusal    string // as in Joined; empty if one was given
	Detail     string
	Identity   string // a SPIFFE id
	Enrolment  string
	Serial     string
	NotAfter   time.Time // zero if none was given
	Authority  string    // fingerprint of the root that it leads to
	Credential string    // token, certificate or jwt
	Peer       string
	KeyHash    []byte
	Took       time.Duration
	Hosts      []string // DNS names in the certificate of a server; Issues does not read them

	// Of refusals that are counted as one, At is when the last was; set by Issues.
	First time.Time // when the first was; zero if there was one alone
	Times int64     // how many there were
}

// RecordIssues keeps what a server has given and refused, in one statement. Refusals that are alike are counted.
func (s *Store) RecordIssues(ctx context.Context, server string, issues []Issue) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
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
			text = storable(text)
			texts[c] = append(texts[c], &text)
		}
		if issue.Refusal == "" {
			texts[0][i] = nil
		}
	}
	_, err := s.pool.Exec(ctx, "SELECT mesh.record_certificates($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
		storable(server), ids, times, texts[0], texts[1], texts[2], texts[3], texts[4], ends, texts[5], texts[6], texts[7], keys, took)
	if err == nil {
		err = s.noteControlPlane(ctx, issues)
	}
	return explain("recording certificates", err)
}

// noteControlPlane keeps the names of servers, which are nobody's to claim.
func (s *Store) noteControlPlane(ctx context.Context, issues []Issue) error {
	for _, issue := range issues {
		if len(issue.Hosts) == 0 {
			continue
		}
		if _, err := s.pool.Exec(ctx, "SELECT mesh.note_control_plane($1, $2)", issue.Identity, issue.Hosts); err != nil {
			return err
		}
	}
	return nil
}

// storable makes of a text from elsewhere one that Postgres takes.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// IssueFilter selects from the record. What is empty selects all.
type IssueFilter struct {
	Namespaces []string // of the identities; nil for all and those that have none
	Identity   string
	Enrolment  string
	Refused    bool // those that were refused alone
	After      time.Time
	Limit      int
}

// Issues lists what was recorded, the newest first.
func (s *Store) Issues(ctx context.Context, f IssueFilter) ([]Issue, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, `SELECT id, at, server, coalesce(refusal, ''), detail, identity, enrolment, serial, coalesce(not_after, '0001-01-01Z'), authority, credential, peer,
		key_hash, coalesce(took, '0'), coalesce(first_at, '0001-01-01Z'), times FROM mesh.certificates
		WHERE ($1::text[] IS NULL OR namespace = ANY ($1)) AND ($2 = '' OR identity = $2) AND ($3 = '' OR enrolment = $3) AND (NOT $4 OR refusal IS NOT NULL) AND at > $5
		ORDER BY at DESC LIMIT $6`, f.Namespaces, f.Identity, f.Enrolment, f.Refused, f.After, f.Limit)
	if err != nil {
		return nil, explain("reading the record of certificates", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (i Issue, err error) {
		err = row.Scan(&i.ID, &i.At, &i.Server, &i.Refusal, &i.Detail, &i.Identity, &i.Enrolment, &i.Serial, &i.NotAfter, &i.Authority, &i.Credential, &i.Peer, &i.KeyHash, &i.Took,
			&i.First, &i.Times)
		return i, err
	})
	return list, explain("reading the record of certificates", err)
}

// Machine is who has a certificate in force.
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

// Machines lists who has a certificate in force in some namespaces, everybody if there are none.
func (s *Store) Machines(ctx context.Context, namespaces []string) ([]Machine, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, `SELECT namespace, identity, enrolment, issued_at, not_after, serial, authority, server, peer, revoked FROM mesh.machines
		WHERE $1::text[] IS NULL OR namespace = ANY ($1) ORDER BY namespace, identity, enrolment`, namespaces)
	if err != nil {
		return nil, explain("reading who has certificates", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Machine])
	return list, explain("reading who has certificates", err)
}

// PruneCertificates forgets a batch of what the settings do not keep, in a transaction of its own, and returns how many went.
func (s *Store) PruneCertificates(ctx context.Context, rows int) (pruned int64, err error) {
	err = s.chore(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT mesh.prune_certificates($1)", rows).Scan(&pruned)
	})
	return pruned, explain("pruning the record of certificates", err)
}
