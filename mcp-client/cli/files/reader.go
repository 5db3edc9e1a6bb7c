package files

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/envoy"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
)

// Reader reads files document by document and collects what is wrong with them.
type Reader struct {
	From      *Sources  // of the files; nil if all of them were named
	In        io.Reader // standard input
	Namespace string    // of documents that name none
	Strict    bool      // documents of other kinds are mistakes
	GoOn      bool      // after a mistake, pass on what is right, with the lines of its fields; for those who change nothing
	Skipped   Skipped
	Shown     *Progress

	Read    int // how many resources
	left    leftOut
	wrong   kinds.Errors
	dropped int // how many more are wrong

	Unsupported kinds.Errors // valid fields that discovery does not act on
}

// maxMistakes bounds the printed violations: more than this is usually one mistake repeated.
const maxMistakes = 1000

// File reads a file, and passes on its resources for as long as nothing is wrong, or those that are right.
func (r *Reader) File(file string, send func(*kinds.Document) error) error {
	in := r.In
	switch {
	case file == Stdin:
		file = "standard input"
	case isURL(file):
		data, err := download(file)
		if err != nil {
			return err
		}
		in = bytes.NewReader(data)
	default:
		opened, err := os.Open(file)
		if err != nil {
			return err
		}
		defer opened.Close()
		in = opened
	}
	parser := kinds.Parser{DefaultNamespace: r.Namespace, Examine: envoy.Examine, Lines: r.GoOn}
	if !r.Strict {
		parser.Foreign = r.Skipped.add
		if r.From != nil {
			parser = r.left.of(r.From, file, parser)
		}
	}
	others := false // it was told that the file is of others
	return parser.Stream(file, r.Shown.counting(in), func(d *kinds.Document, wrong kinds.Errors) error {
		if others {
			return nil
		}
		if instead := ofOthers(file, wrong); instead != nil {
			wrong, others = instead, true
		}
		for _, v := range wrong {
			if len(r.wrong) == maxMistakes {
				r.dropped++
				continue
			}
			r.wrong = append(r.wrong, v)
		}
		if d == nil || len(r.wrong) > 0 && !r.GoOn { // after a mistake, look for more but send nothing
			return nil
		}
		r.Read++
		return send(d)
	})
}

// All returns what passes on the resources of all files, if nothing is wrong.
func (r *Reader) All(files []string) func(send func(*kinds.Document) error) error {
	return func(send func(*kinds.Document) error) error {
		for _, file := range files {
			if err := r.File(file, send); err != nil {
				return err
			}
		}
		return r.Conclusion(files)
	}
}

// Conclusion returns the error of reading the files, if there is one, and tells what was left out.
func (r *Reader) Conclusion(files []string) error {
	r.Shown.Clear()
	r.From.tell(r.left)
	switch {
	case r.dropped > 0:
		r.wrong = append(r.wrong, kinds.Violation{Reason: fmt.Sprintf("%d more violations are not shown", r.dropped)})
		fallthrough
	case len(r.wrong) > 0:
		return &failure.Refused{Violations: r.wrong}
	case r.Read == 0:
		return fmt.Errorf("there is no resource of a mesh in %s%s", list(files), r.Skipped.InWords())
	}
	return nil
}

func list(files []string) string {
	if len(files) == 1 {
		return files[0]
	}
	return fmt.Sprintf("%d files", len(files))
}

// RefuseDuplicate reports resources that are in two files, and whether this is one. The parser reports those that are
// twice in one.
func (r *Reader) RefuseDuplicate(seen map[kinds.Key]*kinds.Document, d *kinds.Document) (refused bool) {
	key := d.Resource.Key()
	first, dup := seen[key]
	if !dup {
		seen[key] = &kinds.Document{File: d.File, Index: d.Index, Line: d.Line}
		return false
	}
	r.wrong = append(r.wrong, duplicate(first, d))
	return true
}

// duplicate is a resource that another file has, too. The files of a folder may be alternatives, as
// those of examples are.
func duplicate(first, d *kinds.Document) kinds.Violation {
	key := d.Resource.Key()
	return kinds.Violation{
		File: d.File, Document: d.Index, Line: d.Line, Kind: key.Kind.Name, Namespace: key.Namespace, Name: key.Name, Path: "metadata.name",
		Reason: fmt.Sprintf("duplicate of %s, document %d, line %d", first.File, first.Index, first.Line),
		Hint:   "name each resource once; if the files are alternatives, name the one that you choose, such as " + d.File,
	}
}

// NoteUnsupported collects fields that discovery does not act on, which are no mistakes.
func (r *Reader) NoteUnsupported(d *kinds.Document) error {
	found, err := d.Resource.Kind.Unsupported(d.Spec)
	if err != nil {
		return err
	}
	for _, v := range found {
		v.File, v.Document, v.Line = d.File, d.Index, d.LineOf(v.Path)
		v.Namespace, v.Name = d.Resource.Namespace, d.Resource.Name
		if len(r.Unsupported) < maxMistakes {
			r.Unsupported = append(r.Unsupported, v)
		}
	}
	return nil
}
