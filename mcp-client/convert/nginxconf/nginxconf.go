// Package nginxconf reads the configuration language of NGINX: directives with words, ended by a
// semicolon or by a block of further ones.
package nginxconf

import (
	"errors"
	"fmt"
	"strings"
)

// Directive is a directive with its words and, if it has one, its block.
type Directive struct {
	Name     string
	Args     []string
	HasBlock bool
	Block    []*Directive

	File string
	Line int
}

// Arg is a word of the directive; "" if it has fewer.
func (d *Directive) Arg(n int) string {
	if n < len(d.Args) {
		return d.Args[n]
	}
	return ""
}

// The bounds of what is read. They are far above what people write.
const (
	maxBytes = 8 << 20
	maxDepth = 32
	maxFiles = 500
)

// Opened is a file that an include names.
type Opened struct {
	Name string
	Data []byte
}

// Reader reads files with what they include.
type Reader struct {
	// Open returns the files of an include, none if there are none. If it is nil, includes stay in the
	// result.
	Open func(pattern string) ([]Opened, error)

	bytes, files int
}

// Read reads a file. An include is replaced by what it includes, and stays if there is no such file.
func (r *Reader) Read(file string, data []byte) ([]*Directive, error) { return r.read(file, data, 0) }

func (r *Reader) read(file string, data []byte, depth int) ([]*Directive, error) {
	r.files++
	r.bytes += len(data)
	switch {
	case depth > maxDepth:
		return nil, fmt.Errorf("%s: files include each other more than %d deep", file, maxDepth)
	case r.files > maxFiles:
		return nil, fmt.Errorf("%s: there are more than %d files", file, maxFiles)
	case r.bytes > maxBytes:
		return nil, fmt.Errorf("%s: there is more than %d MB", file, maxBytes>>20)
	}
	p := &parser{lexer: lexer{text: string(data), line: 1}, file: file}
	all, err := p.block(0)
	if err != nil {
		return nil, fmt.Errorf("%s: line %d: %w", file, p.line, err)
	}
	return r.included(all, depth)
}

// included replaces includes by what they include.
func (r *Reader) included(in []*Directive, depth int) (out []*Directive, err error) {
	for _, d := range in {
		if d.Block, err = r.included(d.Block, depth); err != nil {
			return nil, err
		}
		if d.Name != "include" || r.Open == nil {
			out = append(out, d)
			continue
		}
		opened, err := r.Open(d.Arg(0))
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: include %s: %w", d.File, d.Line, d.Arg(0), err)
		}
		if len(opened) == 0 {
			out = append(out, d)
		}
		for _, o := range opened {
			more, err := r.read(o.Name, o.Data, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		}
	}
	return out, nil
}

type parser struct {
	lexer

	file string
}

var (
	errDepth  = fmt.Errorf("blocks are nested more than %d deep", maxDepth)
	errOpen   = errors.New("the file ends within a block: a } is missing")
	errClosed = errors.New("there is a } too many")
	errEnd    = errors.New("the file ends within a directive: a ; is missing")
	errNoName = errors.New("a directive has no name")
)

// block reads directives up to the end of a block, or of the file.
func (p *parser) block(depth int) (out []*Directive, err error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	for {
		d, end, err := p.directive(depth)
		switch {
		case err != nil:
			return nil, err
		case end == "}" && depth == 0:
			return nil, errClosed
		case end == "" && depth > 0:
			return nil, errOpen
		case d == nil:
			return out, nil
		}
		out = append(out, d)
	}
}

// directive reads one, or says by what there is none any more: "}", or "" for the end of the file.
func (p *parser) directive(depth int) (d *Directive, end string, err error) {
	for {
		token, err := p.next()
		switch {
		case err != nil:
			return nil, "", err
		case token.word && d == nil:
			d = &Directive{Name: token.text, File: p.file, Line: p.line}
		case token.word:
			d.Args = append(d.Args, token.text)
		case token.text == ";" && d != nil:
			return d, ";", nil
		case token.text == "{" && d != nil:
			d.HasBlock = true
			if strings.HasSuffix(d.Name, "_by_lua_block") {
				return d, "{", p.skipBlock()
			}
			d.Block, err = p.block(depth + 1)
			return d, "{", err
		case token.text == ";" || token.text == "{":
			return nil, "", errNoName
		case d != nil:
			return nil, "", errEnd
		default:
			return nil, token.text, nil
		}
	}
}
