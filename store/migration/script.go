package migration

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgmesh/pgmesh/store/kindtables"
	"github.com/pgmesh/pgmesh/store/migrations"
	code "github.com/pgmesh/pgmesh/store/sql"
)

// WriteScript writes a script for psql that does what Up does to a schema of a version, for
// databases that programs may not change. Version 0 is a database without the schema. The script is
// one transaction.
func WriteScript(out io.Writer, from int64) error {
	known, err := knownMigrations()
	if err != nil {
		return err
	}
	if from < 0 || from > known.known() {
		return fmt.Errorf("there is no way from version %d to %d, which is what this program needs", from, known.known())
	}
	s := &script{}
	s.add("\\set ON_ERROR_STOP on\nBEGIN;\nSET LOCAL client_min_messages = warning;\nSET LOCAL check_function_bodies = off;\n")
	s.add(sql.ScriptsTurn + "\n")
	if from == 0 {
		s.add(sql.EmptySchema + "\n")
	} else {
		if _, err := s.Exec(context.Background(), sql.ActAsOwner, true); err != nil {
			return err
		}
		s.add(sql.LockEverything + ";\n") // before it holds anything that others wait for
		s.add(sql.MarkChanges + ";\n")
	}
	for _, m := range known.Migrations {
		if m.Version <= from {
			continue
		}
		if err := s.migration(m); err != nil {
			return err
		}
	}
	if err := s.installation(); err != nil {
		return err
	}
	s.add("COMMIT;\n")
	_, err = io.WriteString(out, s.text.String())
	return err
}

// script collects statements, also from functions that believe to run them in a transaction.
type script struct {
	pgx.Tx // nil: only Exec is called

	text strings.Builder
}

func (s *script) add(text string) { s.text.WriteString(text) }

func (s *script) migration(m Step) error {
	text, err := migrations.Files.ReadFile(m.Name)
	if err != nil {
		return err
	}
	_, up, _ := strings.Cut(string(text), "-- +goose Up\n")
	up, _, _ = strings.Cut(up, "-- +goose Down\n")
	s.add(fmt.Sprintf("\n-- %s\n%s", m.Name, gooseMark.ReplaceAllString(up, "")))
	s.add(fmt.Sprintf("INSERT INTO %s (version_id, is_applied) VALUES (%d, true);\n", versionTable, m.Version))
	return nil
}

var gooseMark = regexp.MustCompile(`(?m)^-- \+goose Statement(Begin|End)\n`)

func (s *script) installation() error {
	ctx := context.Background()
	functions, err := code.Script()
	if err != nil {
		return err
	}
	known := kindtables.Known()
	digest, err := known.Digest()
	if err != nil {
		return err
	}
	if err := known.NumberRules(); err != nil {
		return err
	}
	s.add("\n" + functions + "\n" + sql.UnblockWrites + "\n")
	if err := known.Write(ctx, s); err != nil {
		return err
	}
	_, err = s.Exec(ctx, sql.SetDigests, digestOf(functions), digest)
	s.add(sql.InstallViews + ";\n" + sql.NoteObjects + ";\n" + sql.RefreshPrivileges + ";\n")
	return err
}

// Exec adds a statement, with its arguments inserted as literals.
func (s *script) Exec(_ context.Context, query string, args ...any) (pgconn.CommandTag, error) {
	text := parameter.ReplaceAllStringFunc(query, func(p string) string {
		n, err := strconv.Atoi(p[1:])
		if err != nil {
			panic(err) // the match is digits
		}
		return quoted(args[n-1])
	})
	s.add(text + ";\n")
	return pgconn.CommandTag{}, nil
}

var parameter = regexp.MustCompile(`\$[0-9]+`)

// quoted writes a string literal that does not depend on standard_conforming_strings.
func quoted(arg any) string {
	text := fmt.Sprint(arg)
	if b, ok := arg.([]byte); ok {
		text = string(b)
	}
	text = strings.ReplaceAll(text, "'", "''")
	if strings.Contains(text, `\`) {
		return " E'" + strings.ReplaceAll(text, `\`, `\\`) + "'"
	}
	return "'" + text + "'"
}
