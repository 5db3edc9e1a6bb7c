// Package query reads queries from .sql files, by name.
//
// A package that asks the database has its queries in a folder beside it:
//
//	-- name: RemoveMachine
//	-- Removes one service of a machine, or all of them, and returns how many.
//	SELECT mesh.remove_machine($1, $2, nullif($3, ''), $4)
//
// What several queries share is a fragment, which begins with "-- fragment: Name". A query has it
// in place of {{Name}}.
package query

import (
	"fmt"
	"io/fs"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Read fills a struct with the queries of files: each of its fields is a string, and is named after
// a query. It panics unless every query has one field, and every field a query. So a program with a
// wrong name does not start.
func Read[T any](files ...fs.FS) (into T) {
	all, err := Parse(files...)
	if err != nil {
		panic(err)
	}
	value := reflect.ValueOf(&into).Elem()
	for i := range value.NumField() {
		name := value.Type().Field(i).Name
		q, ok := all[name]
		if !ok {
			panic(fmt.Sprintf("there is no query named %s in the .sql files of %T", name, into))
		}
		value.Field(i).SetString(q.Text)
		delete(all, name)
	}
	for name := range all {
		panic(fmt.Sprintf("%T has no field for the query %s", into, name))
	}
	return into
}

// Query is a query as a file has it, with its fragments filled in.
type Query struct {
	Comment string // what it is for
	Text    string
}

// Parse reads the queries of files, by their names.
func Parse(files ...fs.FS) (map[string]Query, error) {
	p := parser{queries: map[string]Query{}, fragments: map[string]string{}}
	for _, f := range files {
		paths, err := fs.Glob(f, "queries/*.sql")
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			text, err := fs.ReadFile(f, path)
			if err != nil {
				return nil, err
			}
			if err := p.file(string(text)); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	return p.filled()
}

type parser struct {
	queries   map[string]Query
	fragments map[string]string
}

var (
	heading  = regexp.MustCompile(`(?m)^-- (name|fragment): (\w+)\n`)
	inserted = regexp.MustCompile(`\{\{(\w+)\}\}`)
)

func (p *parser) file(text string) error {
	starts := heading.FindAllStringSubmatchIndex(text, -1)
	for i, at := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		kind, name := text[at[2]:at[3]], text[at[4]:at[5]]
		if err := p.add(kind, name, parsed(text[at[1]:end])); err != nil {
			return err
		}
	}
	return nil
}

// parsed splits the lines below a heading into the comment and the query. Postgres is not sent the
// comment.
func parsed(text string) Query {
	var comment []string
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for len(lines) > 0 && strings.HasPrefix(lines[0], "-- ") {
		comment = append(comment, strings.TrimPrefix(lines[0], "-- "))
		lines = lines[1:]
	}
	return Query{strings.Join(comment, " "), strings.TrimSpace(strings.Join(lines, "\n"))}
}

func (p *parser) add(kind, name string, q Query) error {
	_, isQuery := p.queries[name]
	_, isFragment := p.fragments[name]
	switch {
	case isQuery || isFragment:
		return fmt.Errorf("there are two of the name %s", name)
	case q.Text == "":
		return fmt.Errorf("%s is empty", name)
	case kind == "fragment":
		p.fragments[name] = q.Text
	default:
		p.queries[name] = q
	}
	return nil
}

// filled puts the fragments into the queries. A fragment may have others in it.
func (p *parser) filled() (map[string]Query, error) {
	for name, q := range p.queries {
		text, err := p.fill(q.Text, []string{name})
		if err != nil {
			return nil, err
		}
		p.queries[name] = Query{q.Comment, text}
	}
	return p.queries, nil
}

func (p *parser) fill(text string, within []string) (string, error) {
	var wrong error
	filled := inserted.ReplaceAllStringFunc(text, func(part string) string {
		name := strings.Trim(part, "{}")
		fragment, known := p.fragments[name]
		if !known || slices.Contains(within, name) {
			wrong = fmt.Errorf("%s has %s in it, which is no fragment that can be there", within[len(within)-1], part)
			return ""
		}
		inner, err := p.fill(fragment, append(within, name))
		if err != nil {
			wrong = err
		}
		return inner
	})
	return filled, wrong
}
