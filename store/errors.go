package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgmesh/pgmesh/kinds"
)

var (
	// ErrNotFound matches every NotFoundError.
	ErrNotFound = errors.New("not found")

	// ErrConflict says that a transaction conflicted with another. Run it again.
	ErrConflict = errors.New("another transaction was in the way")

	// ErrNoHistory says that history does not have a revision or time: it was pruned, or is in the
	// future.
	ErrNoHistory = errors.New("the history does not tell of it")

	// ErrSchema says that the database's schema does not fit this program.
	ErrSchema = errors.New("the schema in the database does not fit this program")
)

// SQLSTATEs that parts of the store act on.
const (
	CodeDangling = "MS005" // a warning of a problem between resources
	CodeNoLock   = "55P03" // a lock could not be had
)

// DropFirst begins what to do about what others built on what is to be dropped.
const DropFirst = "drop first what others built on it: "

// SQLSTATEs that the functions of the schema raise. Of the first three, DETAIL has a JSON list of
// violations; Postgres raises the first two as well, without one.
const (
	codeInvalid     = "23514" // a resource breaks a rule
	codeBroken      = "23503" // a change would break references, where that is refused
	codeUnknownKind = "MS002" // a question about a kind that is not known
	codeRefused     = "MS003" // an operation that these tables never allow
	codeHistory     = "MS004" // a revision or time that history does not have
	codeUnconfirmed = "MS006" // a confirmation that does not fit the state
	codeQuota       = "MS008" // a quota would be exceeded
	codeUnknownName = "MS010" // a name that no resource has or had
)

// NotFoundError names a missing resource.
type NotFoundError struct{ Key kinds.Key }

func (e *NotFoundError) Error() string        { return e.Key.String() + ": not found" }
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// RefusedError is an operation that the database refuses to everybody.
type RefusedError struct {
	Reason, Advice string
	kind           error
}

func (e *RefusedError) Error() string { return e.Reason + " (" + e.Advice + ")" }

// Is reports whether the target is the sentinel of this refusal, such as ErrNoHistory.
func (e *RefusedError) Is(target error) bool { return e.kind != nil && target == e.kind }

// InvalidError is a request that cannot be fulfilled, with advice.
type InvalidError struct{ Reason, Advice string }

func (e *InvalidError) Error() string { return e.Reason + " (" + e.Advice + ")" }

// ExplainInput is [Explain] for what people have entered, where the database says what would be
// right.
func ExplainInput(doing string, err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "22023" {
		return &InvalidError{pg.Message, pg.Hint}
	}
	return Explain(doing, err)
}

// Explain turns a database error into one of this package's, or else adds what was being done and
// advice.
func Explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	if theirs := FromCaller(err); theirs != nil {
		return theirs
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		if ours := fromDatabase(pg); ours != nil {
			return ours
		}
	}
	if advice := adviceFor(err, pg); advice != "" {
		return fmt.Errorf("%s: %w (%s)", doing, err, advice)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func fromDatabase(pg *pgconn.PgError) error {
	switch pg.Code {
	case codeInvalid, codeBroken, codeUnknownKind:
		var violations kinds.Errors
		if json.Unmarshal([]byte(pg.Detail), &violations) == nil && len(violations) > 0 {
			return violations
		}
	case codeRefused, codeUnconfirmed, codeQuota:
		return &RefusedError{Reason: pg.Message, Advice: pg.Hint}
	case codeHistory:
		return &RefusedError{Reason: pg.Message, Advice: pg.Hint, kind: ErrNoHistory}
	case codeUnknownName:
		return &RefusedError{Reason: pg.Message, Advice: pg.Hint, kind: ErrNotFound}
	case CodeNoLock:
		return blocked(pg)
	case "40001", "40P01":
		return fmt.Errorf("%w: %s", ErrConflict, pg.Message)
	}
	return nil
}

// adviceFor returns advice about errors that a database URL or a role can cause; "" for others.
func adviceFor(err error, pg *pgconn.PgError) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens at that address: check that Postgres runs there and that the host and port of the database URL are right"
	case errors.Is(err, syscall.ENOENT):
		return "there is no such socket: check that Postgres runs and that the host of the database URL is right"
	case pg == nil:
		return ""
	}
	switch pg.Code {
	case "28P01", "28000":
		return "check the user and password of the database URL, and pg_hba.conf"
	case "3D000":
		return "create the database, or correct its name in the database URL"
	case "42P01", "3F000", "42883":
		if strings.Contains(pg.Message, "mesh") {
			return "the schema is missing or old: run mcp-server migrate up"
		}
	case "2BP01":
		return DropFirst + pg.Detail
	case "53300":
		return "raise max_connections of Postgres, or let fewer programs connect"
	case "42501":
		return "the role of the database URL lacks a privilege on the schema mesh: connect as its owner, or have it granted"
	case "25006":
		return "nothing can be written here: this Postgres is a standby, and target_session_attrs=read-write and all hosts belong into the database URL; or default_transaction_read_only is on for the database or the role"
	}
	return ""
}
